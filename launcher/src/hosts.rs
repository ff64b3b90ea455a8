//! Where ranks go: lists of hosts as users and Slurm write them, and the placing of ranks on them.

use circulant::error::{Error, ErrorKind, Result};
use circulant::launch::hostlist;

/// The most hosts of a job.
const MAX_HOSTS: usize = hostlist::MAX_NAMES;

/// The most ranks on a host.
const MAX_RANKS_PER_HOST: usize = 1 << 16;

/// A host as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name or address, as it is given to ssh.
    pub name: String,
    /// How many ranks it takes, where that was said.
    pub slots: Option<usize>,
}

impl Host {
    /// A host from its two parts.
    ///
    /// # Errors
    /// When the name could be taken for an option or for several words, or the number makes no sense.
    fn new(name: &str, slots: Option<&str>) -> Result<Self> {
        let fine = |c: char| c.is_alphanumeric() || "._-:@%".contains(c);
        if name.is_empty() || name.starts_with('-') || name.len() > 255 || !name.chars().all(fine) {
            return Err(wrong(format!("{name:?} is no name of a host")));
        }
        let number = |text: &str| match text.trim().parse::<usize>() {
            Ok(n) if (1..=MAX_RANKS_PER_HOST).contains(&n) => Ok(n),
            _ => {
                Err(wrong(format!("host {name}: {text:?} is no number of ranks (1 to {MAX_RANKS_PER_HOST})")))
            }
        };
        Ok(Self { name: name.to_owned(), slots: slots.map(number).transpose()? })
    }

    /// `host`, `host:4`, `[fe80::1]:4`; an IPv6 address without brackets has no number.
    fn parse(word: &str) -> Result<Self> {
        if let Some((name, rest)) = word.strip_prefix('[').and_then(|w| w.split_once(']')) {
            return match rest.strip_prefix(':') {
                Some(slots) => Self::new(name, Some(slots)),
                None if rest.is_empty() => Self::new(name, None),
                None => Err(wrong(format!("{word:?} is no name of a host"))),
            };
        }
        match word.split_once(':') {
            Some((name, slots)) if !slots.contains(':') => Self::new(name, Some(slots)),
            _ => Self::new(word, None),
        }
    }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Argument, message)
}

/// Hosts of `--hosts`: `a:4,b:4`, `a,b`. A host may come more than once; its numbers add up.
///
/// # Errors
/// When a name or a number makes no sense, or there is none.
///
/// ```
/// # use circulant_launcher::hosts::list;
/// let hosts = list("a:4,b")?;
/// assert_eq!((hosts[0].slots, hosts[1].name.as_str()), (Some(4), "b"));
/// # Ok::<(), circulant::Error>(())
/// ```
pub fn list(text: &str) -> Result<Vec<Host>> {
    merge(text.split(',').map(|word| Host::parse(word.trim())))
}

/// Hosts of a host file: lines `host`, `host:4` or `host slots=4`; what follows `#` is a comment.
///
/// # Errors
/// When a line cannot be understood, or no host is named.
pub fn file(text: &str) -> Result<Vec<Host>> {
    let line = |(number, line): (usize, &str)| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let host = Host::parse(words.next()?);
        let host = host.and_then(|mut host| {
            for word in words {
                match word.split_once('=') {
                    Some(("slots", slots)) if host.slots.is_none() => {
                        host = Host::new(&host.name, Some(slots))?;
                    }
                    // Of Open MPI's form; it has no meaning here.
                    Some(("max_slots" | "max-slots", _)) => {}
                    _ => {
                        return Err(wrong(format!(
                            "{word:?} was not expected; a line is HOST, HOST:4 or HOST slots=4"
                        )));
                    }
                }
            }
            Ok(host)
        });
        Some(host.map_err(|e| wrong(format!("line {}: {}", number + 1, e.message()))))
    };
    merge(text.lines().enumerate().filter_map(line))
}

/// Each host once, in the order of its first mention.
fn merge(hosts: impl Iterator<Item = Result<Host>>) -> Result<Vec<Host>> {
    let mut all: Vec<Host> = Vec::new();
    let mut index = std::collections::HashMap::new();
    for host in hosts {
        let host = host?;
        match index.get(&host.name) {
            Some(&at) => {
                let known: &mut Host = &mut all[at];
                // Said twice without a number means two ranks, as in the files of batch systems.
                let sum = known.slots.unwrap_or(1) + host.slots.unwrap_or(1);
                known.slots = Some(sum.min(MAX_RANKS_PER_HOST));
            }
            None => {
                index.insert(host.name.clone(), all.len());
                all.push(host);
            }
        }
        if all.len() > MAX_HOSTS {
            return Err(wrong(format!("more than {MAX_HOSTS} hosts")));
        }
    }
    if all.is_empty() {
        return Err(wrong("no host is named".to_owned()));
    }
    Ok(all)
}

/// The host of each of `ranks` ranks, as an index into `hosts`: neighbours together. `each` overrides what the
/// hosts say. Where no number is known the ranks are shared out evenly; where there are more ranks than
/// places, the hosts are filled again from the first.
pub fn place(hosts: &[Host], ranks: usize, each: Option<usize>) -> Vec<usize> {
    let count = hosts.len().max(1);
    let mut places = Vec::with_capacity(ranks.min(MAX_HOSTS));
    if each.is_none() && hosts.iter().all(|h| h.slots.is_none()) {
        for host in 0..count {
            // The first hosts take one more each where it does not come out even.
            let share = ranks / count + usize::from(host < ranks % count);
            places.extend(std::iter::repeat_n(host, share));
        }
        return places;
    }
    while places.len() < ranks {
        for (i, host) in hosts.iter().enumerate() {
            let slots = each.or(host.slots).unwrap_or(1).max(1);
            places.extend(std::iter::repeat_n(i, slots.min(ranks - places.len())));
        }
    }
    places
}

/// The same, one rank after the other on the next host that has a place left. Where no number is known each takes as many
/// as come.
pub fn place_in_turns(hosts: &[Host], ranks: usize, each: Option<usize>) -> Vec<usize> {
    let filled = place(hosts, ranks, each);
    let mut left = vec![0usize; hosts.len().max(1)];
    filled.iter().for_each(|&host| left[host] += 1);
    let most = left.iter().copied().max().unwrap_or(0);
    let round =
        |turn: usize| left.iter().enumerate().filter(move |(_, many)| **many > turn).map(|(host, _)| host);
    (0..most).flat_map(round).collect()
}

/// How many ranks the hosts take where no number of ranks is given.
pub fn capacity(hosts: &[Host], each: Option<usize>) -> usize {
    hosts.iter().map(|h| each.or(h.slots).unwrap_or(1)).sum()
}

/// `PMI_process_mapping` for ranks on these nodes: `(vector,(first_node,nodes,ranks_per_node),…)`.
pub fn mapping(nodes: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &node in nodes {
        match runs.last_mut() {
            Some(run) if run.0 == node => run.1 += 1,
            _ => runs.push((node, 1)),
        }
    }
    let mut blocks: Vec<(usize, usize, usize)> = Vec::new();
    for (node, each) in runs {
        match blocks.last_mut() {
            Some(b) if b.2 == each && b.0 + b.1 == node => b.1 += 1,
            _ => blocks.push((node, 1, each)),
        }
    }
    let list: String =
        blocks.iter().map(|(first, nodes, each)| format!(",({first},{nodes},{each})")).collect();
    format!("(vector{list})")
}

/// Slurm's short form of a list of names: `n[1-3,07],login,r[1-2]c[0-1]`.
///
/// # Errors
/// When it cannot be understood, or names more hosts than there can be.
///
/// ```
/// # use circulant_launcher::hosts::slurm_names;
/// assert_eq!(slurm_names("n[08-10],m")?, ["n08", "n09", "n10", "m"]);
/// # Ok::<(), circulant::Error>(())
/// ```
pub fn slurm_names(text: &str) -> Result<Vec<String>> {
    let names = hostlist::names(text).filter(|names| names.iter().all(|name| Host::new(name, None).is_ok()));
    names
        .ok_or_else(|| wrong(format!("{:?} is no list of nodes", text.chars().take(200).collect::<String>())))
}

/// Slurm's short form of numbers, one per node: `2(x3),1` is 2, 2, 2, 1.
///
/// # Errors
/// When it cannot be understood.
pub fn slurm_counts(text: &str) -> Result<Vec<usize>> {
    let bad = || wrong(format!("{:?} is no list of numbers", text.chars().take(200).collect::<String>()));
    let mut counts = Vec::new();
    for part in text.split(',') {
        let (number, times) = match part.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')').ok_or_else(bad)?),
            None => (part, "1"),
        };
        let parse = |t: &str| {
            t.trim().parse::<usize>().ok().filter(|n| (1..=MAX_RANKS_PER_HOST).contains(n)).ok_or_else(bad)
        };
        let (number, times) = (parse(number)?, parse(times)?);
        if counts.len() + times > MAX_HOSTS {
            return Err(bad());
        }
        counts.extend(std::iter::repeat_n(number, times));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use circulant::launch::mapping as read;
    use proptest::prelude::*;

    fn shown(hosts: &[Host]) -> Vec<(&str, Option<usize>)> {
        hosts.iter().map(|h| (h.name.as_str(), h.slots)).collect()
    }

    #[test]
    fn lists_and_files() {
        let hosts = list("a:4, b ,[fe80::1]:2,fe80::2,me@c:1,a").unwrap();
        let want = [("a", Some(5)), ("b", None), ("fe80::1", Some(2)), ("fe80::2", None), ("me@c", Some(1))];
        assert_eq!(shown(&hosts), want);
        let hosts = file("# all\n a slots=4 max_slots=8\n\nb:3 # three\nc\nc\r\n").unwrap();
        assert_eq!(shown(&hosts), [("a", Some(4)), ("b", Some(3)), ("c", Some(2))]);
        for bad in [
            "",
            ",",
            "a:0",
            "a:x",
            "a:",
            "-oProxyCommand=x",
            "a b",
            "a;b",
            "[a",
            "[a]4",
            "a:99999999999999999999",
        ] {
            assert!(list(bad).is_err(), "{bad:?}");
        }
        for (bad, words) in
            [("a\nb slots=x", "line 2"), ("a four", "\"four\""), ("a:1 slots=2", "slots"), ("#", "no host")]
        {
            assert!(file(bad).unwrap_err().to_string().contains(words), "{bad:?}");
        }
    }

    #[test]
    fn places_and_mappings() {
        let plain = list("a,b").unwrap();
        assert_eq!(place(&plain, 5, None), [0, 0, 0, 1, 1]);
        assert_eq!(place(&plain, 1, None), [0]);
        assert_eq!(place_in_turns(&plain, 5, None), [0, 1, 0, 1, 0]);
        assert_eq!(place(&plain, 5, Some(1)), [0, 1, 0, 1, 0]);
        let some = list("a:2,b").unwrap();
        assert_eq!(place(&some, 7, None), [0, 0, 1, 0, 0, 1, 0]);
        assert_eq!((capacity(&some, None), capacity(&some, Some(4))), (3, 8));
        assert_eq!(mapping(&[0, 0, 1, 1, 2]), "(vector,(0,2,2),(2,1,1))");
        assert_eq!(mapping(&[0; 5]), "(vector,(0,1,5))");
    }

    #[test]
    fn what_slurm_says() {
        assert_eq!(slurm_names("n[1-2,07]x,a").unwrap(), ["n1x", "n2x", "n07x", "a"]);
        assert_eq!(slurm_names("r[1-2]c[0,3]").unwrap(), ["r1c0", "r1c3", "r2c0", "r2c3"]);
        for bad in ["", "n[", "n]", "n[1", "n[2-1]", "n[1-99999999]", "n[a]", "a,,b", "n[[1]]", "a b"] {
            assert!(slurm_names(bad).is_err(), "{bad:?}");
        }
        assert_eq!(slurm_counts("2(x3),1").unwrap(), [2, 2, 2, 1]);
        for bad in ["", "0", "2(x", "2(x)", "2(x99999999)", "a"] {
            assert!(slurm_counts(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text(text in "[ab:,\\[\\]0-9x()=# \nslot-]{0,60}") {
            let _ = (list(&text), file(&text), slurm_names(&text), slurm_counts(&text));
        }

        #[test]
        fn mappings_come_back(nodes in proptest::collection::vec(0usize..5, 1..60)) {
            let back = read::parse(&mapping(&nodes), nodes.len()).unwrap();
            prop_assert!(back.iter().zip(&nodes).all(|(&b, &n)| b as usize == n));
        }

        #[test]
        fn every_rank_has_a_place(slots in proptest::collection::vec(proptest::option::of(1usize..5), 1..9), ranks in 0usize..99) {
            let hosts: Vec<Host> = slots.iter().map(|&slots| Host { name: "a".into(), slots }).collect();
            for each in [None, Some(3)] {
                let turns = place_in_turns(&hosts, ranks, each);
                let places = place(&hosts, ranks, each);
                let sorted = |mut list: Vec<usize>| { list.sort_unstable(); list };
                prop_assert_eq!(sorted(turns), sorted(places.clone()));
                prop_assert_eq!(places.len(), ranks);
                prop_assert!(places.iter().all(|&p| p < hosts.len()));
            }
        }
    }
}
