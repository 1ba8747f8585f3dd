#!/bin/sh
# Plans a pull request, and leaves the plan in comment.md. Ends with 0 where it would be accepted, whether or not something
# would change, and with 1 where it would be refused.
#   JIBE_SERVER, JIBE_TOKEN   the server and a token of the role planner
#   BASE, HEAD                the branch that is merged into, and the commit that is proposed
set -eu
: "${JIBE_SERVER:?the address of Jibe}" "${JIBE_TOKEN:?a token of the role planner}" "${BASE:?}" "${HEAD:?}"
{
	echo '<!-- jibe plan -->' # by which the comment is found again
	jibe plan --base "$BASE" --head "$HEAD" -o markdown && code=0 || code=$?
} >comment.md
[ "$code" = 0 ] || [ "$code" = 2 ]
