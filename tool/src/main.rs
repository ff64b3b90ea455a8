//! The `circulant` tool.

mod agree;
mod algorithms;
mod bench;
mod completions;
mod doctor;
mod files;
mod grid;
mod info;
mod learned;
mod mpi;
mod outcome;
mod plot;
mod run;
mod schedule;
mod select;
mod settings;
mod sim;
mod trace;
mod tune;
mod units;
mod wire;

use circulant::config::Config;
use circulant::diagnostics::CountingAllocator;
use circulant::trace as log;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use outcome::{Failure, Out};
use std::process::ExitCode;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// So that `bench --stats` can count heap allocations.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const AFTER_HELP: &str = "\
Every subcommand has its own --help, with examples. bench, tune, cast and collect run as one process per rank: put \
`circulant run -n P` before them on one machine, or start them with another launcher.

Settings are environment variables, CIRCULANT_PROVIDER and others; `circulant info` lists them all. Messages go to \
standard error; CIRCULANT_LOG=info (or debug, trace) prints more of them, with ,all behind it of all ranks.

Exit code: 0 when all went well, 1 when not, 2 for wrong arguments or settings, 3 when --check found wrong data.

Examples:
  circulant info
  circulant run -n 4 doctor
  circulant schedule -p 9
  circulant sim bcast -p 1152 --bytes 1M
  circulant select allreduce -p 36 --sweep
  circulant run -n 8 bench bcast,allgatherv --check
  circulant run -n 8 tune -o machine.tuning --verify
  circulant run -n 8 cast big.iso /tmp/copy-%r.iso";

/// Round-optimal collectives over one-sided puts, without MPI
#[derive(Debug, Parser)]
#[command(version, after_help = AFTER_HELP)]
enum Tool {
    Run(run::RunArgs),
    Mpi(mpi::MpiArgs),
    Schedule(schedule::ScheduleArgs),
    Bench(bench::BenchArgs),
    Plot(plot::PlotArgs),
    Cast(files::CastArgs),
    Collect(files::CollectArgs),
    Info(info::InfoArgs),
    Doctor(doctor::DoctorArgs),
    Sim(sim::SimArgs),
    Algorithms(algorithms::AlgorithmsArgs),
    Select(select::SelectArgs),
    Tune(tune::TuneArgs),
    Trace(trace::TraceArgs),
    Completions(completions::CompletionsArgs),
}

fn main() -> ExitCode {
    if let Some(code) = run::own_use() {
        return code;
    }
    let words = run::words(std::env::args_os());
    let tool = match run::parse(&words) {
        Some(args) => args.map(Tool::Run),
        None => Tool::try_parse_from(words),
    };
    let done = tool.map_err(usage).and_then(|tool| {
        logging()?;
        match tool {
            Tool::Run(args) => Ok(run::main(args)),
            Tool::Mpi(args) => Err(mpi::run(&args)),
            Tool::Schedule(args) => Ok(schedule::run(&args).map(|()| ExitCode::SUCCESS)?),
            Tool::Bench(args) => bench::run(&args).map(|()| ExitCode::SUCCESS),
            Tool::Plot(args) => plot::run(&args).map(|()| ExitCode::SUCCESS),
            Tool::Cast(args) => files::cast::run(&args).map(|()| ExitCode::SUCCESS),
            Tool::Collect(args) => files::collect::run(&args).map(|()| ExitCode::SUCCESS),
            Tool::Info(args) => info::run(&args).map(|()| ExitCode::SUCCESS),
            Tool::Doctor(args) => doctor::run(&args),
            Tool::Sim(args) => sim::run(&args).map(|()| ExitCode::SUCCESS),
            Tool::Algorithms(args) => algorithms::run(&args).map(|()| ExitCode::SUCCESS),
            Tool::Select(args) => select::run(&args).map(|()| ExitCode::SUCCESS),
            Tool::Tune(args) => tune::run(&args).map(|()| ExitCode::SUCCESS),
            Tool::Trace(args) => trace::run(&args).map(|()| ExitCode::SUCCESS),
            Tool::Completions(args) => completions::run(&args, Tool::command()).map(|()| ExitCode::SUCCESS),
        }
    });
    done.unwrap_or_else(|failure| failure.report())
}

/// What a wrong command line comes to: one line, as every other error. Help goes to standard output.
fn usage(e: clap::Error) -> Failure {
    // Of the ranks of a job, all of which were given the same line, one speaks.
    let rank = ["PMI_RANK", "PMIX_RANK"].iter().find_map(|name| std::env::var(name).ok());
    if rank.is_some_and(|rank| rank != "0") {
        return Failure::new(u8::from(e.use_stderr()) * 2, "");
    }
    let text = e.render().to_string();
    match e.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let mut out = Out::new();
            out.text(&text);
            return out.finish().err().unwrap_or_else(|| Failure::new(0, ""));
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return Failure::new(2, "say what to do; circulant --help lists the subcommands");
        }
        _ => {}
    }
    let paragraphs = text.split("\n\n").map(str::trim);
    let said = paragraphs.filter(|p| !p.starts_with("Usage:") && !p.starts_with("For more information"));
    let words: Vec<String> = said.map(|p| p.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let line = words.join("; ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    Failure::new(2, format!("{line}; --help says more"))
}

/// Messages as CIRCULANT_LOG asks for them, of a level and more serious ones. Which ranks' messages are wanted the
/// library decides.
fn logging() -> Result<(), Failure> {
    // Other settings that cannot be read are told of by those that need them.
    let config = Config::from_env();
    config.check_one("log")?;
    let lines = tracing_subscriber::fmt().with_max_level(config.log.level).with_writer(std::io::stderr);
    lines.with_ansi(false).event_format(Lines).init();
    Ok(())
}

/// Messages in the form in which the library writes them where there is no subscriber.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> std::fmt::Result {
        write!(writer, "circulant: {}: ", log::name(*event.metadata().level()))?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
