#!/usr/bin/env bash
# Three answers break off after a whole call. How often does opencode run the tool?
set -euo pipefail
. "$(dirname "$0")/common.sh"
install opencode-ai@1.18.33 opencode
serve bash "echo ran >> $effects" 3 --cut
mkdir -p "$top/home/.config/opencode"
echo '{"provider":{"openai":{"options":{"baseURL":"'"$base"'/v1"}}}}' >"$top/home/.config/opencode/opencode.json"
run env OPENAI_API_KEY=none OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_SHARE=1 "$program" run -m openai/gpt-5.5 "report once"
sed -n '/^request/p' "$top/model.log"
echo "the tool had its effect $(count) time(s)"
