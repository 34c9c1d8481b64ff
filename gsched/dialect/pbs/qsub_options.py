"""qsub's options as a table: what is taken, and by name what is refused and what to say instead.

Source: qsub(1B) of OpenPBS 23 and of Torque 6, whose lists of options this table goes through; a test compares them.
"""

from __future__ import annotations

from gsched.dialect.pbs.letter_options import LetterOptions, letter, refused_letters

QSUB = LetterOptions(
    summary="submit a job, as PBS's qsub does",
    operands="[SCRIPT | -- COMMAND [ARGUMENT ...]]   (without either a script is read from standard input)",
    options=(
        letter("N", "NAME", "name of the job"),
        letter("q", "QUEUE[@SERVER]", "queue"),
        letter("l", "RESOURCES", "select=, nodes=, place=, walltime=, ncpus=, ngpus=, mem=, cput= ..."),
        letter("J", "FIRST-LAST[:STEP][%COUNT]", "an array with these indices"),
        letter("t", "LIST[%COUNT]", "the same, as Torque writes it: 0-9,20"),
        letter("o", "[HOST:]PATH", "output file; a directory stands for NAME.oNUMBER in it"),
        letter("e", "[HOST:]PATH", "error file"),
        letter("j", "oe|eo|n", "output and errors in one file: that of the output, or of the errors"),
        letter("k", "o|e|oe|n|d", "files stay where the job runs, in the home directory; d: at their place at once"),
        letter("R", "o|e|oe", "these files are not kept"),
        letter("V", "", "the job has all variables of this environment"),
        letter("v", "NAME[=VALUE],...", "the job has these variables"),
        letter("d", "DIRECTORY", "where the job runs (Torque); without it in the home directory"),
        letter("w", "DIRECTORY", "the same"),
        letter("S", "SHELL", "what runs the script, whatever its #! line says"),
        letter("F", "ARGUMENTS", "arguments of the script (Torque)"),
        letter("A", "NAME", "project the job belongs to"),
        letter("P", "NAME", "the same"),
        letter("a", "[[[[CC]YY]MM]DD]hhmm[.SS]", "start no sooner"),
        letter("p", "NUMBER", "order among your own jobs, from -1024 to 1023"),
        letter("h", "", "hold it until it is released"),
        letter("r", "y|n", "whether it runs again when its host is lost"),
        letter("m", "n|[a][b][e][j]", "mail when it is aborted, begins, ends"),
        letter("M", "ADDRESS", "whom mail goes to"),
        letter("W", "NAME=VALUE,...", "depend=, block=true, umask=, sandbox=HOME, stagein=, stageout= ..."),
        letter("I", "", "interactive: this terminal is the job's"),
        letter("n", "", "alone on its hosts (Torque)"),
        letter("C", "PREFIX", "lines of the script that begin so are options, instead of #PBS"),
        letter("c", "n|u", "taken: there are no checkpoints"),
        letter("u", "USER[@HOST]", "taken for whoever submits"),
        letter("f", "", "taken: there is no process in the background"),
        letter("z", "", "do not print the number"),
        letter("x", "", "an interactive job runs the script and ends with it (Torque)"),
        letter("E", "", "taken: the job always finds these variables"),
        *refused_letters("XG", "there is no X11 forwarding: ssh -X to a host of the job"),
        *refused_letters("D", "a job's root directory cannot be changed: say -d DIRECTORY", value="DIRECTORY"),
        *refused_letters("T", "there are no scripts of the site to be named: -W or a queue's settings", value="NAME"),
        *refused_letters("L", "NUMA nodes are asked for with gsub -R 'affinity[...]'", value="RESOURCES"),
        *refused_letters("K", "slot limits stand behind the list: -t 0-9%2", value="COUNT"),
        *refused_letters("b", "the command waits for its server as long as GSCHED_COMMAND_WAIT says", value="SECONDS"),
        *refused_letters("i", "say it in the script: command < FILE", value="PATH"),
    ),
    examples=(
        "PROGRAM -l select=2:ncpus=8:ngpus=2:mem=64gb -l walltime=8:00:00 train.sh",
        "PROGRAM -l nodes=2:ppn=4:gpus=1 -N train -j oe train.sh",
        "PROGRAM -J 0-99%8 sweep.sh",
        "PROGRAM -I -l select=1:ncpus=4:ngpus=1",
    ),
)
