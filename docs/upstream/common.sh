# shellcheck shell=bash disable=SC2034 # the scripts use the variables
# What the scripts in this folder have in common. They need bash, Node with npm, and Python 3.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(mktemp -d)
mkdir -p "$top/home/work"
effects=$top/home/effects
model=
agent=

# finish ends what the script has started. AGENT_PACKAGES is not removed.
finish() {
  [ -n "$agent" ] && kill -9 -- "-$agent" 2>/dev/null
  [ -n "$model" ] && kill "$model" 2>/dev/null
  rm -rf "$top"
}
trap finish EXIT

# install installs one package, with the version, into AGENT_PACKAGES or a folder of its own.
install() {
  packages=${AGENT_PACKAGES:-$top/packages}
  mkdir -p "$packages"
  [ -e "$packages/node_modules/.bin/$2" ] || npm install --silent --no-audit --no-fund --prefix "$packages" "$1"
  program=$packages/node_modules/.bin/$2
}

# serve starts the model server. Its arguments are those of model.py.
serve() {
  python3 "$here/model.py" "$@" >>"$top/model.log" &
  model=$!
  until [ -s "$top/model.log" ]; do sleep 0.1; done
  base=$(head -n 1 "$top/model.log")
}

# run runs the agent to its end, with nothing of the environment but PATH.
run() {
  (cd "$top/home/work" && env -i PATH="$PATH" HOME="$top/home" TERM=dumb NO_COLOR=1 CI=1 "$@") >>"$top/agent.log" 2>&1 </dev/null
}

# begin starts the agent in a process group of its own.
begin() {
  set -m
  run "$@" &
  agent=$!
  set +m
}

# await waits until the tool has had its effect, for two minutes at most.
await() {
  for ((i = 0; i < 24000; i++)); do
    [ -s "$effects" ] && return
    sleep 0.005
  done
  echo "the tool did not run; what the agent wrote:" >&2
  cat "$top/agent.log" >&2
  exit 1
}

# crash kills the agent and all that it has started.
crash() {
  kill -9 -- "-$agent"
  wait "$agent" 2>/dev/null || true
  agent=
}

# count prints how often the tool had its effect.
count() { if [ -e "$effects" ]; then wc -l <"$effects" | tr -d " "; else echo 0; fi; }
