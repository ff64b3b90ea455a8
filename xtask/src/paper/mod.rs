//! `xtask paper`: the tables of the papers that the algorithms come from, beside what is computed here.

mod axida;
mod grama;
mod kang_2019;
mod ledger;
mod sheet;
mod traff_2010;
mod traff_2022;

use crate::tool::grid::grid;
use circulant::{Error, ErrorKind, Result};
use sheet::Sheet;

/// A paper that can be checked.
struct Paper {
    name: &'static str,
    title: &'static str,
    /// What of it.
    shows: &'static str,
    check: fn(&mut Sheet) -> Result<()>,
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

/// The papers, a line each.
pub(crate) fn list() -> String {
    let row = |paper: &Paper| vec![paper.name.to_owned(), paper.title.to_owned(), paper.shows.to_owned()];
    let rows: Vec<_> = PAPERS.iter().map(row).collect();
    grid(&[("name", true), ("paper", true), ("checked", true)], &rows)
}

/// The tables of a paper, or of all; and how many of its values differ without a known reason.
pub(crate) fn check(name: &str) -> Result<(String, u32)> {
    if name != "all" && !PAPERS.iter().any(|paper| paper.name == name) {
        let names: Vec<_> = PAPERS.iter().map(|paper| paper.name).collect();
        let message = format!("there is no paper {name:?}; there are {}, and all", names.join(", "));
        return Err(Error::new(ErrorKind::Argument, message));
    }
    let mut out = String::new();
    let mut differing = 0;
    for paper in PAPERS.iter().filter(|paper| name == "all" || paper.name == name) {
        let mut sheet = Sheet::new(&mut out, paper.name, paper.title);
        (paper.check)(&mut sheet)?;
        differing += sheet.sum_up();
    }
    Ok((out, differing))
}
