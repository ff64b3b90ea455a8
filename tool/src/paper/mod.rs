//! `circulant paper`: the tables of the papers that the algorithms come from, beside what is computed here.

mod axida;
mod grama;
mod kang_2019;
mod ledger;
mod sheet;
mod traff_2010;
mod traff_2022;

use crate::grid::grid;
use crate::outcome::{Failure, Out};
use clap::Args;
use sheet::Sheet;

/// A paper that can be checked.
struct Paper {
    name: &'static str,
    title: &'static str,
    /// What of it.
    shows: &'static str,
    check: fn(&mut Sheet) -> Result<(), Failure>,
}

const PAPERS: &[Paper] = &[
    Paper {
        name: "traff-2022",
        title: "Träff, (Poly)logarithmic Time Construction of Round-optimal n-Block Broadcast Schedules",
        shows: "Tables 1 and 5, Theorems 1 to 3, the cost of schedules",
        check: traff_2022::check,
    },
    Paper {
        name: "traff-2010",
        title: "Träff, Ripke, Siebert, Balaji, Thakur, Gropp, A Pipelined Algorithm for Large, Irregular All-gather \
                Problems",
        shows: "rounds of its distributions by equation (1), Figure 3, block sizes by (2)",
        check: traff_2010::check,
    },
    Paper {
        name: "grama",
        title: "Grama, Gupta, Karypis, Kumar, Introduction to Parallel Computing, chapter 4",
        shows: "costs on ring, mesh and hypercube",
        check: grama::check,
    },
    Paper {
        name: "kang-2019",
        title: "Kang, Träff, Al-Bahrani, Agrawal, Choudhary, Liao, Scalable Algorithms for MPI Intergroup Allgather and \
                Allgatherv",
        shows: "expected gains in its eight settings, Theorems 1 and 3",
        check: kang_2019::check,
    },
    Paper {
        name: "axida",
        title: "Axida, Viet, Yoshinaga, Pipelined Round-Robin Broadcast Algorithm",
        shows: "Tables 1 and 2",
        check: axida::check,
    },
];

const EXAMPLES: &str = "\
Examples:
  circulant paper
  circulant paper traff-2022
  circulant paper all";

/// Print a paper's tables beside what is computed here, and whether they agree
///
/// Where a paper is known to be wrong, both values are shown and why. Exit code 1: something differs that should
/// not.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PaperArgs {
    /// Which paper, or all [default: list them]
    #[arg(value_name = "NAME", value_parser = known)]
    name: Option<String>,
}

fn known(name: &str) -> Result<String, String> {
    if name == "all" || PAPERS.iter().any(|paper| paper.name == name) {
        return Ok(name.to_owned());
    }
    let names: Vec<_> = PAPERS.iter().map(|paper| paper.name).collect();
    Err(format!("there is no paper {name:?}; there are {}, and all", names.join(", ")))
}

/// Runs the subcommand.
pub(crate) fn run(args: &PaperArgs) -> Result<(), Failure> {
    let mut out = Out::new();
    let Some(name) = &args.name else {
        let row = |paper: &Paper| vec![paper.name.to_owned(), paper.title.to_owned(), paper.shows.to_owned()];
        let rows: Vec<_> = PAPERS.iter().map(row).collect();
        out.text(&grid(&[("name", true), ("paper", true), ("checked", true)], &rows));
        return out.finish();
    };
    let mut differing = 0;
    for paper in PAPERS.iter().filter(|paper| name == "all" || paper.name == name) {
        let mut sheet = Sheet::new(&mut out, paper.name, paper.title);
        (paper.check)(&mut sheet)?;
        differing += sheet.sum_up();
    }
    out.finish()?;
    match differing {
        0 => Ok(()),
        n => {
            Err(Failure::new(1, format!("{n} of the values differ from the papers' without a known reason")))
        }
    }
}
