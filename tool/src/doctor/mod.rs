//! `circulant doctor`: run alone or as the ranks of a job, says what each node is like, which node reaches which, whether the
//! wire works, and what to do about all that is wrong. It asks the launcher, not the wire, for what it tells: so it
//! also speaks where the wire is broken. Every wait has an end.

mod checked;
mod job;
mod node;
mod print;
mod reach;
mod report;
mod wire;

use crate::outcome::{Failure, Out};
use circulant::config::Config;
use circulant::launch::{self, Launch};
use circulant::transport::fabric::prepare;
use clap::Args;
use job::Job;
use node::{Node, RankInfo};
use reach::Reached;
use report::Report;
use std::process::ExitCode;
use std::time::Duration;

const AFTER_HELP: &str = "\
Start it as you start your program: what one launcher passes on another does not. It tells, per node, what was \
detected and what limits there are; tries which address of which node is reached from which other; and makes a world, as a \
program would. Up to 16 nodes each tries all others, else some. Nothing is changed.

Exit code: 0 when there is no problem, 1 when there are problems, 2 for wrong arguments or settings. What only costs time is \
listed apart and is no problem.

Examples:
  circulant doctor
  circulant run -n 4 doctor
  mpiexec.hydra -hosts n0,n1 circulant doctor
  srun --mpi=pmi2 -N 2 circulant doctor --json
  circulant run -n 4 --provider tcp circulant doctor --wire";

/// Examine the nodes of a job: launcher, addresses, which node reaches which, limits, the wire; and say what to do
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    /// One object instead of text
    #[arg(long)]
    json: bool,
    /// Seconds that each step may take, and a connection a tenth of it
    #[arg(long, value_name = "S", default_value = "20", value_parser = crate::units::seconds_argument)]
    timeout: f64,
    /// Check the wire between each pair of neighbours for all that the library relies on, and print a block of text to send back
    #[arg(long, conflicts_with = "no_wire")]
    wire: bool,
    /// Do not make a world: only what the launcher and plain connections tell
    #[arg(long)]
    no_wire: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let mut report = Report::default();
    let mut rank = 0;
    let config = Config::from_env();
    // As a world would, before the launcher's library starts threads.
    if let Some(size) = launch::expected_size(&config) {
        prepare(size, config.ports);
    }
    match launch::detect(&config) {
        Ok(launch) => {
            rank = launch.rank();
            examine(launch, args, &mut report);
        }
        Err(e) => {
            report.trouble_of(&e);
            report.alone(Node::look(&[RankInfo::look(0)]));
        }
    }
    if rank != 0 {
        // Rank 0 speaks for all; what others alone know they have told it.
        return Ok(ExitCode::SUCCESS);
    }
    report.judge();
    let mut out = Out::new();
    match args.json {
        false => out.text(&print::text(&report)),
        true => out.line(&serde_json::to_string_pretty(&report).map_err(|e| Failure::new(1, e.to_string()))?),
    }
    out.finish()?;
    Ok(ExitCode::from(u8::from(report.has_trouble())))
}

/// All that takes several ranks. What fails is told in the report of rank 0.
fn examine(mut launch: Box<dyn Launch>, args: &DoctorArgs, report: &mut Report) {
    // Fences wait for the slowest rank, which may have to load libfabric on a busy core.
    let timeout = Duration::from_secs_f64(args.timeout);
    report.launcher = Some(launch.name().to_owned());
    report.ranks = launch.size();
    report.launcher_nodes = launch.nodes();
    let mut job = Job { launch: launch.as_mut(), timeout };
    match converse(&mut job, report) {
        Ok(()) => {}
        Err(e) => {
            if report.nodes.is_empty() {
                report.alone(Node::look(&[RankInfo::look(job.launch.rank())]));
            }
            return report.trouble_of(&e);
        }
    }
    if args.wire {
        // What is wrong with it is told beside what a world finds.
        match checked::check(&mut job, report.nodes.len()) {
            Ok((checked, problems)) => {
                report.problems.extend(problems);
                report.checked = checked;
            }
            Err(e) => report.trouble_of(&e),
        }
    }
    if args.no_wire {
        if let Err(e) = launch.finalize() {
            report.trouble_of(&e);
        }
        return;
    }
    wire::check(launch, timeout, report);
}

/// Rank 0 learns what all ranks, and one rank of each node, know.
fn converse(job: &mut Job<'_>, report: &mut Report) -> circulant::Result<()> {
    let (rank, size) = (job.launch.rank(), job.launch.size());
    job.tell("rank", &RankInfo::look(rank))?;
    job.fence()?;
    if rank == 0 {
        let mut ranks = Vec::with_capacity(size);
        for r in 0..size {
            let info: Option<RankInfo> = job.hear("rank", r)?;
            ranks.push(info.unwrap_or_else(|| RankInfo { rank: r, ..RankInfo::default() }));
        }
        let groups = node::group(ranks);
        job.tell("nodes", &groups)?;
        report.spaces = groups.iter().map(|g| g[0].space).collect();
    }
    job.fence()?;
    let groups: Vec<Vec<RankInfo>> = job.hear("nodes", 0)?.unwrap_or_default();
    let leaders: Vec<usize> = groups.iter().filter_map(|g| g.first().map(|s| s.rank)).collect();
    // One rank of each node examines it, and listens.
    let mine = leaders.iter().position(|l| *l == rank);
    let mut listener = None;
    if let Some(i) = mine {
        let mut node = Node::look(&groups[i]);
        listener = reach::Listener::open(rank);
        node.port = listener.as_ref().map(reach::Listener::port);
        job.tell("node", &node)?;
    }
    job.fence()?;
    if let Some(i) = mine {
        let mut others = Vec::new();
        for j in reach::targets(i, leaders.len()) {
            let node: Option<Node> = job.hear("node", leaders[j])?;
            others.extend(node.map(|n| (j, leaders[j], n)));
        }
        let own = job.hear::<Node>("node", rank)?.unwrap_or_default();
        let space = groups[i][0].space;
        let far =
            others.into_iter().map(|(j, leader, n)| (j, leader, groups[j][0].space == space, n)).collect();
        let reached: Vec<Reached> = reach::try_all(&own, far, job.timeout / 10);
        job.tell("reach", &reached)?;
    }
    // Listeners stay open until all nodes have tried.
    job.fence()?;
    drop(listener);
    if rank == 0 {
        for leader in &leaders {
            report.nodes.extend(job.hear::<Node>("node", *leader)?);
            report.reached.push(job.hear("reach", *leader)?.unwrap_or_default());
        }
    }
    Ok(())
}
