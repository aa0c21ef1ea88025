#!/usr/bin/env bash
# Gemini CLI is killed while a tool runs, and its session is resumed: what is left of the turn?
set -euo pipefail
. "$(dirname "$0")/common.sh"
install @google/gemini-cli@0.61.0 gemini
mkdir -p "$top/home/.gemini"
echo '{"security":{"auth":{"selectedType":"gemini-api-key"}},"general":{"enableAutoUpdate":false},"privacy":{"usageStatisticsEnabled":false}}' >"$top/home/.gemini/settings.json"
serve run_shell_command "echo ran >> $effects; sleep 5" 2
gemini=(env GOOGLE_GEMINI_BASE_URL="$base" GEMINI_API_KEY=none GEMINI_CLI_TRUST_WORKSPACE=true NO_BROWSER=1 "$program" -m gemini-2.5-flash --yolo)
begin "${gemini[@]}" -p "report once"
await
crash
echo "killed; the tool had its effect $(count) time(s)"
echo "the session file has the call: $(grep -c functionCall "$top"/home/.gemini/tmp/*/chats/session-*.jsonl || true) time(s)"
echo "--- resumed" >>"$top/model.log"
run "${gemini[@]}" --resume latest -p "go on"
sed -n '/^request\|^---/p' "$top/model.log"
echo "the tool had its effect $(count) time(s)"
