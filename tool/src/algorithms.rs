//! `circulant algorithms`: the registry, to read.

use crate::outcome::{Failure, Out};
use crate::units::align;
use circulant::plan::registry::{Algorithm, Operation, all};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

const AFTER_HELP: &str = "\
p ranks, q = ⌈log2 p⌉, n blocks; m bytes in all, m_i those of rank i, s those of a block; N nodes, \
q_N = ⌈log2 N⌉, S ranks on the largest, q_S = ⌈log2 S⌉; in lines of hops (n-way, bruck, multiplying) n is the messages of a rank in a hop. The first algorithm of an \
operation is taken unless another is cheaper; `circulant select` says which is chosen when, and --algorithm, \
CIRCULANT_ALGORITHM or a file (CIRCULANT_SELECTION) choose another.

Examples:
  circulant algorithms
  circulant algorithms allreduce
  circulant algorithms --format markdown";

/// List the algorithms: what they ask for, their rounds and volume, in what order they fold
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct AlgorithmsArgs {
    /// Only those of this operation
    #[arg(value_name = "OP", value_parser = operation())]
    op: Option<Operation>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// Aligned, to read
    #[default]
    Text,
    /// Tables of a document
    Markdown,
    /// A list of objects
    Json,
}

/// An operation by its name.
pub(crate) fn operation() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(Operation::ALL.iter().map(|op| op.name()))
        .try_map(|name| name.parse::<Operation>())
}

#[derive(Serialize)]
struct Line {
    operation: &'static str,
    name: &'static str,
    restrictions: &'static str,
    rounds: &'static str,
    volume: &'static str,
    /// Operations that reduce.
    order: Option<Order>,
    source: &'static str,
}

#[derive(Serialize)]
struct Order {
    text: &'static str,
    same_bits_on_all_ranks: bool,
    reproducible_for_equal: &'static str,
    canonical: bool,
}

impl Line {
    fn new(a: &Algorithm) -> Self {
        let order = a.order.map(|o| Order {
            text: o.text,
            same_bits_on_all_ranks: o.identical,
            reproducible_for_equal: o.same_for,
            canonical: o.canonical,
        });
        let Algorithm { name, restrictions, rounds, volume, source, .. } = *a;
        Self { operation: a.operation.name(), name, restrictions, rounds, volume, order, source }
    }

    /// All about the order, in one cell.
    fn order(&self) -> String {
        let Some(order) = &self.order else { return String::new() };
        let mut text = format!("{}; same bits for equal {}", order.text, order.reproducible_for_equal);
        if !order.same_bits_on_all_ranks {
            text += ", not on all ranks";
        }
        if order.canonical {
            text += "; taken by `reproducible`";
        }
        text
    }

    fn cells(&self) -> [String; 6] {
        let [name, restrictions, rounds, volume, source] =
            [self.name, self.restrictions, self.rounds, self.volume, self.source].map(str::to_owned);
        [name, restrictions, rounds, volume, self.order(), source]
    }
}

const HEADS: [&str; 6] = ["algorithm", "for", "rounds", "bytes received", "order", "source"];

/// Runs the subcommand.
pub(crate) fn run(args: &AlgorithmsArgs) -> Result<(), Failure> {
    let mut out = Out::new();
    let operations = Operation::ALL.into_iter().filter(|op| args.op.is_none_or(|only| only == *op));
    let lines: Vec<Line> =
        operations.flat_map(|op| all().filter(move |a| a.operation == op)).map(Line::new).collect();
    match args.format {
        Format::Json => {
            let text = serde_json::to_string_pretty(&lines).map_err(|e| Failure::new(1, e.to_string()))?;
            out.line(&text);
        }
        Format::Text => tables(&lines, &mut out, text),
        Format::Markdown => tables(&lines, &mut out, markdown),
    }
    out.finish()
}

/// One table per operation.
fn tables(lines: &[Line], out: &mut Out, print: fn(&str, &[&str], &[Vec<String>], &mut Out)) {
    for (i, group) in lines.chunk_by(|a, b| a.operation == b.operation).enumerate() {
        let folds = group.iter().any(|line| line.order.is_some());
        let keep = |column: &usize| folds || *column != 4;
        let heads: Vec<&str> = (0..6).filter(keep).map(|i| HEADS[i]).collect();
        let rows: Vec<Vec<String>> = group
            .iter()
            .map(|line| {
                let cells = line.cells();
                (0..6).filter(keep).map(|i| cells[i].clone()).collect()
            })
            .collect();
        if i > 0 {
            out.line("");
        }
        print(group[0].operation, &heads, &rows, out);
    }
}

fn text(operation: &str, heads: &[&str], rows: &[Vec<String>], out: &mut Out) {
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let width = |i: usize| {
        let cells = rows.iter().chain([&heads]).map(|row| row[i].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let left = vec![true; heads.len()];
    out.line(operation);
    for row in [&heads].into_iter().chain(rows) {
        out.line(&format!("  {}", align(row, &widths, &left)));
    }
}

fn markdown(operation: &str, heads: &[&str], rows: &[Vec<String>], out: &mut Out) {
    out.line(&format!("### {operation}\n"));
    out.line(&format!("| {} |", heads.join(" | ")));
    out.line(&format!("|{}", "---|".repeat(heads.len())));
    for row in rows {
        let cells: Vec<String> =
            row.iter().map(|cell| cell.replace('|', "\\|").replace('*', "\\*")).collect();
        out.line(&format!("| {} |", cells.join(" | ")));
    }
}
