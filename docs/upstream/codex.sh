#!/usr/bin/env bash
# Codex is killed while a tool runs, and its session is resumed: what is the model told?
set -euo pipefail
. "$(dirname "$0")/common.sh"
install @openai/codex@0.169.0 codex
serve exec_command "echo ran >> $effects; sleep 20" 1
mkdir -p "$top/home/.codex"
cat >"$top/home/.codex/config.toml" <<END
model = "gpt-5.5"
model_provider = "local"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "$base/v1"
env_key = "LOCAL_KEY"
wire_api = "responses"
END
codex=(env LOCAL_KEY=none "$program" exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox)
begin "${codex[@]}" "report once"
await
crash
echo "killed; the tool had its effect $(count) time(s)"
echo "--- resumed" >>"$top/model.log"
run "${codex[@]}" resume --last "go on"
sed -n '/^request\|^---/p' "$top/model.log"
