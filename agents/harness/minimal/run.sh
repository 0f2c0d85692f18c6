#!/bin/sh
# The instruction comes on standard input; the working directory is the task's.
exec python3 "$(dirname "$0")/agent.py"
