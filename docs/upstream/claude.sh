#!/usr/bin/env bash
# Claude Code is killed as soon as a tool has had its effect: is the call in the session file?
set -euo pipefail
. "$(dirname "$0")/common.sh"
install @anthropic-ai/claude-code@2.1.330 claude
serve Bash "echo ran >> $effects; sleep 20" 100
claude=(env ANTHROPIC_BASE_URL="$base" ANTHROPIC_API_KEY=none CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 IS_SANDBOX=1 "$program" --allowedTools Bash)
for round in 1 2 3 4 5; do
  rm -rf "$effects" "$top/home/.claude/projects"
  begin "${claude[@]}" -p "report once"
  await
  crash
  calls=$(cat "$top"/home/.claude/projects/*/*.jsonl | grep -c '"type":"tool_use"' || true)
  echo "kill $round: the tool had its effect $(count) time(s), the session file has its call $calls time(s)"
done
