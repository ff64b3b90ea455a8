//! `circulant completions`: what a shell offers behind the tool's name.

use crate::outcome::{Failure, Out};
use circulant::plan::registry::{Operation, all};
use clap::builder::PossibleValuesParser;
use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;

const AFTER_HELP: &str = "\
Examples:
  circulant completions bash > ~/.local/share/bash-completion/completions/circulant
  circulant completions zsh > ~/.zfunc/_circulant
  circulant completions fish > ~/.config/fish/completions/circulant.fish";

/// Print a script that completes commands, flags, operations and algorithms
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Which,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Bash,
    Zsh,
    Fish,
}

/// Runs the subcommand on the tool's own description.
pub(crate) fn run(args: &CompletionsArgs, tool: Command) -> Result<(), Failure> {
    let shell = match args.shell {
        Which::Bash => Shell::Bash,
        Which::Zsh => Shell::Zsh,
        Which::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    let tool = &mut described(tool);
    clap_complete::generate(shell, tool, "circulant", &mut script);
    if shell == Shell::Fish {
        script.extend(positions(tool).into_bytes());
    }
    let mut out = Out::new();
    out.text(&String::from_utf8_lossy(&script));
    out.finish()
}

/// What the generator for fish leaves out: the values of arguments without a flag.
fn positions(tool: &Command) -> String {
    let mut text = String::new();
    for command in tool.get_subcommands() {
        for arg in command.get_arguments().filter(|arg| arg.is_positional()) {
            let values = arg.get_possible_values();
            let values: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
            if !values.is_empty() {
                text += &format!(
                    "complete -c circulant -n \"__fish_seen_subcommand_from {}\" -f -a \"{}\"\n",
                    command.get_name(),
                    values.join(" ")
                );
            }
        }
    }
    text
}

/// With the registry's names where the arguments' own parsers take more than a list of words.
fn described(tool: Command) -> Command {
    let mut names: Vec<&str> = all().map(|a| a.name).chain(["auto"]).collect();
    names.sort_unstable();
    names.dedup();
    let operations: Vec<&str> = Operation::ALL.iter().map(|op| op.name()).chain(["put"]).collect();
    let mut tool = tool;
    let commands: Vec<String> = tool.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    for command in commands {
        tool = tool.mut_subcommand(command, |mut command| {
            let has = |command: &Command, id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
            if has(&command, "algorithm") {
                command =
                    command.mut_arg("algorithm", |arg| arg.value_parser(PossibleValuesParser::new(&names)));
            }
            if has(&command, "ops") {
                command =
                    command.mut_arg("ops", |arg| arg.value_parser(PossibleValuesParser::new(&operations)));
            }
            command
        });
    }
    tool
}
