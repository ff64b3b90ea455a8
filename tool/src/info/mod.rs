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
use circulant::transport::fabric::{Options, Survey, survey};
use circulant::transport::route::Route;
use clap::Args;
use machine::Limits;
use problem::Problem;
use provider::{Judgement, Library};
use report::Value;

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
        report.ask_libfabric(&config);
        report.wires = wires::wires(&config.provider, &report.providers, &wires::shared_memory());
        problems::find(&mut report, &config);
        report
    }

    /// Judges the providers for ranks on several nodes and on one.
    fn ask_libfabric(&mut self, config: &Config) {
        // Of ours it knows nothing.
        let provider = match Route::of(&config.provider, &[0, 0, 1]) {
            Route::Both(far) | Route::Fabric(far) => far,
            Route::Shm { .. } => "auto",
        };
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
                Ok(survey) => self.take(&survey, one_node),
                Err(e) => return self.problems.push(Problem::of(&e)),
            }
        }
    }

    fn take(&mut self, survey: &Survey, one_node: bool) {
        self.libfabric = Some(Library {
            version: survey.version.clone(),
            path: survey.path.display().to_string(),
            environment: survey.environment.iter().map(ToString::to_string).collect(),
        });
        for (i, c) in survey.candidates.iter().enumerate() {
            let same = |p: &&mut Provider| {
                (&p.provider, &p.domain, &p.address) == (&c.provider, &c.domain, &c.address)
            };
            let judgement =
                Judgement { score: c.score, chosen: survey.chosen == Some(i), rejected: c.rejected.clone() };
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
                provider: c.provider.clone(),
                domain: c.domain.clone(),
                address: c.address.clone(),
                several_nodes,
                one_node: one,
                notify_bytes: c.word,
                max_put: c.max_put,
                gather: c.gather,
                inject: c.inject,
            });
        }
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
