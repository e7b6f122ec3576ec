#!/bin/sh
# Starts logcleaner, and says why that cannot be: sh logcleaner/start.sh ARGUMENTS
# A file system that is mounted noexec starts no program; all that a shell says of that is "Permission denied".
directory=$(cd "$(dirname "$0")" && pwd)
if [ -x "$directory/logcleaner" ]; then exec "$directory/logcleaner" "$@"; fi
echo "logcleaner: $directory: nothing can be started there, because its file system is mounted noexec; copy the" \
    "directory to one without noexec, or as root: mount -o remount,exec MOUNTPOINT" >&2
exit 126
