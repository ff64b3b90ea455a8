//! `circulant info`: what there is, what would be chosen and why, and what to do about each problem.

pub(crate) mod machine;
pub(crate) mod print;
pub(crate) mod problem;
mod problems;
mod provider;
mod report;
mod wires;

pub(crate) use provider::Provider;
pub(crate) use report::Report;

use crate::outcome::{Failure, Out};
use circulant::config::Config;
use circulant::transport::fabric::quirks::our_name;
use circulant::transport::fabric::{Options, Survey, survey};
use circulant::transport::route::Route;
use circulant::transport::{MemoryKind, verbs};
use clap::Args;
use machine::Limits;
use problem::Problem;
use provider::{Judgement, Library, Registered};
use report::Value;

/// Of RDMA hardware without libfabric, which comes before all that libfabric has.
const NATIVE_SCORE: i32 = 1000;

/// The names by which it may be taken, and the one by which libfabric's is.
const MAY_BE_NATIVE: [&str; 3] = [verbs::NAME, "auto", LIBFABRIC_RDMA];
const LIBFABRIC_RDMA: &str = "verbs";

const AFTER_HELP: &str = "\
First stands the wire that ranks would take, by where they are. libfabric's providers are listed as they would be judged for ranks on several nodes, and for ranks that all run on this one, \
with the settings of this environment. Nothing is changed, and no rank or host is connected to.

Examples:
  circulant info
  CIRCULANT_PROVIDER=verbs circulant info
  circulant info --format json | jq .problems";

/// Show libraries, providers, interfaces, limits and settings, and what to do about each problem
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct InfoArgs {
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// To read
    #[default]
    Table,
    /// One object
    Json,
}

/// Runs the subcommand.
pub(crate) fn run(args: &InfoArgs) -> Result<(), Failure> {
    let report = Report::make();
    let mut out = Out::new();
    match args.format {
        Format::Table => out.text(&print::table(&report)),
        Format::Json => {
            let text = serde_json::to_string_pretty(&report).map_err(|e| Failure::new(1, e.to_string()))?;
            out.line(&text);
        }
    }
    out.finish()
}

impl Report {
    pub(crate) fn make() -> Self {
        let mut report = Self {
            version: env!("CARGO_PKG_VERSION"),
            host: crate::agree::host(),
            interfaces: machine::interfaces(),
            limits: Limits::read(),
            ..Self::default()
        };
        let config = Config::from_env();
        report.settings = settings(&config);
        let asked = asked(&config);
        let native = report.ask_verbs(&config, asked);
        report.ask_libfabric(&config, asked, native);
        report.wires = wires::wires(&config.provider, &report.providers, &wires::shared_memory());
        problems::find(&mut report, &config);
        report
    }

    /// Judges the ports of RDMA hardware that are taken without libfabric; whether one of them is, where all ranks have one.
    fn ask_verbs(&mut self, config: &Config, asked: &str) -> bool {
        let options = verbs::Options {
            device: config.verbs_device.as_deref(),
            gid: config.verbs_gid.map(u32::from),
            path_mtu: config.verbs_mtu,
            ..verbs::Options::new(0, 2)
        };
        let mut wanted = MAY_BE_NATIVE.contains(&asked);
        let mut add = |domain: &str, address: &str, (max_put, gather), memory, rejected: Option<String>| {
            let chosen = rejected.is_none() && std::mem::take(&mut wanted);
            let judgement = Some(Judgement { score: NATIVE_SCORE, chosen, rejected });
            self.providers.push(Provider {
                provider: verbs::NAME.to_owned(),
                domain: domain.to_owned(),
                address: address.to_owned(),
                several_nodes: judgement.clone(),
                one_node: judgement,
                notify_bytes: 4,
                max_put,
                gather,
                inject: 0,
                memory,
            });
            chosen
        };
        match verbs::survey(&options) {
            Err(e) => add("", "", (0, 0), Registered::default(), Some(e.to_string())),
            Ok(found) if found.is_empty() => {
                add("", "", (0, 0), Registered::default(), Some(verbs::absent()))
            }
            Ok(found) => {
                let judge = |c: verbs::Candidate| {
                    add(&c.name, &c.address, (c.max_put, c.gather), registered(c.memory), c.rejected)
                };
                found.into_iter().map(judge).fold(false, |any, chosen| any | chosen)
            }
        }
    }

    /// Judges the providers for ranks on several nodes and on one; chosen is the best if the choice is libfabric's.
    fn ask_libfabric(&mut self, config: &Config, asked: &str, native: bool) {
        let ours = native || asked == verbs::NAME;
        // Of ours it knows nothing.
        let provider = if asked == verbs::NAME { LIBFABRIC_RDMA } else { asked };
        for one_node in [false, true] {
            let options = Options {
                provider,
                all_on_one_node: one_node,
                size: 2,
                wait: None,
                libfabric: &config.libfabric,
                ..Options::default()
            };
            match survey(&options) {
                Ok(survey) => self.take(&survey, one_node, ours),
                Err(e) => return self.problems.push(Problem::of(&e)),
            }
        }
    }

    fn take(&mut self, survey: &Survey, one_node: bool, ours: bool) {
        self.libfabric = Some(Library {
            version: survey.version.clone(),
            path: survey.path.display().to_string(),
            environment: survey.environment.iter().map(ToString::to_string).collect(),
        });
        for (i, c) in survey.candidates.iter().enumerate() {
            let provider = our_name(&c.provider);
            let same = |p: &&mut Provider| {
                (&p.provider[..], &p.domain, &p.address) == (provider, &c.domain, &c.address)
            };
            let chosen = survey.chosen == Some(i) && !ours;
            let judgement = Judgement { score: c.score, chosen, rejected: c.rejected.clone() };
            if let Some(known) = self.providers.iter_mut().find(same) {
                let place = if one_node { &mut known.one_node } else { &mut known.several_nodes };
                // The same endpoint comes in several flavours; the best of them speaks for it.
                if place.as_ref().is_none_or(|p| !p.chosen && (judgement.chosen || p.rejected.is_some())) {
                    *place = Some(judgement);
                }
                continue;
            }
            let (several_nodes, one) =
                if one_node { (None, Some(judgement)) } else { (Some(judgement), None) };
            self.providers.push(Provider {
                provider: provider.to_owned(),
                domain: c.domain.clone(),
                address: c.address.clone(),
                several_nodes,
                one_node: one,
                notify_bytes: c.word,
                max_put: c.max_put,
                gather: c.gather,
                inject: c.inject,
                memory: Registered {
                    devices: c.device_memory.then(|| "FI_HMEM".to_owned()).into_iter().collect(),
                    ..Registered::default()
                },
            });
        }
    }
}

/// What memory a device of verbs registers.
fn registered(memory: verbs::Support) -> Registered {
    let devices = memory.kinds().iter().filter(|kind| **kind != MemoryKind::Host).map(ToString::to_string);
    Registered { devices: devices.collect(), on_demand: memory.on_demand, dmabuf: memory.dmabuf }
}

/// What is asked for between nodes.
fn asked(config: &Config) -> &str {
    match Route::of(&config.provider, &[0, 0, 1]) {
        Route::Both(far) | Route::Fabric(far) => far,
        Route::Shm { .. } => "auto",
    }
}

fn settings(config: &Config) -> Vec<Value> {
    let from = |variable: &str| match std::env::var_os(variable).is_some_and(|v| !v.is_empty()) {
        true => "environment",
        false => "default",
    };
    config
        .texts()
        .map(|(s, value)| Value {
            name: s.name,
            variable: s.variable,
            value,
            from: from(s.variable),
            default: s.default,
            text: s.text,
        })
        .collect()
}
