#!/usr/bin/env bash
# Qwen Code is killed while a tool runs, and its session is resumed: what is the model told?
set -euo pipefail
. "$(dirname "$0")/common.sh"
install @qwen-code/qwen-code@0.24.4 qwen
mkdir -p "$top/home/.qwen"
echo '{"general":{"enableAutoUpdate":false},"privacy":{"usageStatisticsEnabled":false}}' >"$top/home/.qwen/settings.json"
serve run_shell_command "echo ran >> $effects; sleep 20" 1
qwen=(env OPENAI_BASE_URL="$base/v1" OPENAI_API_KEY=none "$program" --auth-type openai -m qwen3-coder-plus --yolo)
begin "${qwen[@]}" -p "report once"
await
crash
echo "killed; the tool had its effect $(count) time(s)"
echo "--- resumed" >>"$top/model.log"
run "${qwen[@]}" --continue -p "go on"
sed -n '/^request\|^---/p' "$top/model.log"
