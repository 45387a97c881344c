# Completion of stetfs for bash: commands and options as the program itself tells them.

_stetfs()
{
	local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} program=${COMP_WORDS[0]}

	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W "$("$program" help 2>/dev/null |
			sed -n 's/^  \([a-z]*\)  *[A-Z].*/\1/p') help" -- "$word"))
	elif [[ $word == -* ]]; then
		COMPREPLY=($(compgen -W "$("$program" help "$command" 2>/dev/null |
			sed -n 's/^  .*\(--[a-z0-9-]*\).*/\1/p')" -- "$word"))
	elif [ "$command" = table ] && [ "$COMP_CWORD" -eq 3 ]; then
		COMPREPLY=($(compgen -W "create get put del scan count dump load" -- "$word"))
	else
		COMPREPLY=($(compgen -f -- "$word"))
		compopt -o filenames 2>/dev/null
	fi
}

complete -F _stetfs stetfs
