//! What a world logs at start-up and at the first calls of each kind, where `CIRCULANT_LOG` asks for it.

use super::collective::Collective;
use super::communicator::Communicator;
use super::measure;
use super::places::Places;
use super::shared::Shared;
use crate::config::Config;
use crate::plan::registry::{Algorithm, Arguments};
use crate::trace::Log;

/// Logs our address and those of the ranks that we are connected to; one rank alone has none.
pub(super) fn addresses(log: &Log, own: &str, neighbours: &[u32], shown: &[String]) {
    if neighbours.is_empty() {
        return;
    }
    log.info(|| {
        let others: Vec<String> =
            neighbours.iter().zip(shown).map(|(rank, at)| format!("rank {rank} at {at}")).collect();
        format!("at {own}; connected to {}", others.join(", "))
    });
}

/// Logs what the world is made of, and from now on which way its calls take.
pub(super) fn world(
    log: &Log,
    comm: &Communicator,
    config: &Config,
    [provider, launcher]: [&str; 2],
    places: &Places,
) {
    let nodes = &places.nodes;
    let count = nodes.iter().max().map_or(1, |node| node + 1);
    log.info(|| {
        format!(
            "circulant {}, {} on {}, provider {provider}, launcher {launcher}",
            env!("CARGO_PKG_VERSION"),
            plural(comm.size() as u64, "rank"),
            plural(count.into(), "node"),
        )
    });
    log.info(|| format!("ranks by node: {}", ranks_by_number(nodes, count)));
    if let Some(most) = places.groups.iter().max() {
        let groups = ranks_by_number(&places.groups, most + 1);
        log.info(|| format!("ranks by group of nodes, tapered 1:{}: {groups}", config.taper));
    }
    log.info(|| {
        let set: Vec<String> = config.changed().map(|(s, value)| format!("{}={value}", s.variable)).collect();
        match set.is_empty() {
            true => "all settings are the defaults".to_owned(),
            false => format!("settings that are not the defaults: {}", set.join(" ")),
        }
    });
    if let Ok((machine, source)) = measure::machine(comm) {
        let model = &machine.wire;
        log.info(|| {
            let alone = match machine.alone_ns {
                u64::MAX => String::new(),
                ns => format!("; a put takes a rank alone {ns} ns"),
            };
            format!(
                "choices by L = {} ns, o = {} ns, β = {} ps/B, from {source}{alone}",
                model.latency_ns, model.overhead_ns, model.byte_ps
            )
        });
    }
    if let Ok(mut held) = comm.hold() {
        held.log.tell_of_calls();
    }
}

impl Shared {
    /// Logs how a planned call runs, the first time that its operation takes this algorithm.
    pub(super) fn log_plan(
        &mut self,
        call: Collective,
        algorithm: &'static Algorithm,
        arguments: &Arguments,
    ) {
        let machine = self.selection.machine();
        self.log.call(call.name(), algorithm.name, || {
            let blocks = algorithm.cost(arguments, machine).blocks;
            let rounds = u64::from((algorithm.rounds_of)(arguments, blocks));
            let (unit, a_hop) =
                if algorithm.messages.is_some() { ("message", " a hop") } else { ("block", "") };
            let (blocks, rounds) = (plural(blocks.into(), unit), plural(rounds, "round"));
            let (bytes, ranks) = (arguments.total(call.operation()), plural(arguments.size.into(), "rank"));
            format!(", {blocks}{a_hop}, {rounds} (by plan; {bytes} bytes, {ranks})")
        });
    }

    /// The same of a short call.
    pub(super) fn log_short_call(&mut self, name: &'static str, bytes: usize) {
        self.log.call(name, "a short call", || format!(" ({bytes} bytes)"));
    }
}

fn plural(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// `0: 0-3, 1: 4-7`, by nodes or by groups; of many the first.
fn ranks_by_number(nodes: &[u32], count: u32) -> String {
    /// Nodes that the log names, at most. Chosen, for one line of text; `nodes_are_logged_in_runs` shows it.
    const MAX_NODES_NAMED: u32 = 16;
    let of = |node: u32| -> String {
        let ranks: Vec<usize> = (0..nodes.len()).filter(|rank| nodes[*rank] == node).collect();
        let runs = ranks.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            [one] => one.to_string(),
            [] => String::new(),
        });
        format!("{node}: {}", runs.collect::<Vec<_>>().join(" "))
    };
    let mut text = (0..count.min(MAX_NODES_NAMED)).map(of).collect::<Vec<_>>().join(", ");
    if count > MAX_NODES_NAMED {
        text += &format!(", and {} more", count - MAX_NODES_NAMED);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_logged_in_runs() {
        assert_eq!(ranks_by_number(&[0, 0, 1, 0, 1, 1], 2), "0: 0-1 3, 1: 2 4-5");
        let many: Vec<u32> = (0..40).collect();
        assert!(ranks_by_number(&many, 40).ends_with("15: 15, and 24 more"));
    }
}
