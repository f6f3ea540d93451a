#!/bin/sh
# Redisson as a worker of the lab: redisson.sh JARS [fenced]. JARS is the directory with its jars.
set -eu

absent() {
    printf '{"line":"absent","why":"Redisson: %s"}\n' "$1"
    exit
}

jars=${1:?the directory with the jars}
shift
command -v java >/dev/null || absent "there is no java"
ls "$jars"/redisson-*.jar >/dev/null 2>&1 || absent "no jars in $jars"
# The compiler's notes are not for the lab.
exec java -Xshare:auto -XX:TieredStopAtLevel=1 -cp "$jars/*" "$(dirname "$0")/RedissonWorker.java" "$@"
