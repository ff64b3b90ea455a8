//! What is wrong or slow here, and what to do about it.

use super::problem::Problem;
use super::provider::Provider as Found;
use super::report::Report;
use super::wires::{self, Wire};
use crate::units::{plural, size};
use circulant::config::{Config, Provider};
use circulant::transport::fabric::quirks::{Class, quirk};
use circulant::transport::verbs;

/// Less shared memory than this does not carry a job of some ranks.
const SHM_LOW: u64 = 128 << 20;
/// Less lockable memory than this does not hold a large message on RDMA hardware.
const MEMLOCK_LOW: u64 = 1 << 30;

/// Adds what can be seen in `report`.
pub(super) fn find(report: &mut Report, config: &Config) {
    let mut found: Vec<Problem> = config.faults().map(Problem::of).collect();
    if report.libfabric.is_some() {
        found.extend(choice(report, config));
    }
    found.extend(idle_hardware(report));
    found.extend(limits(report));
    let up = report.interfaces.iter().any(|i| i.name != "lo" && i.state != "down" && !i.addresses.is_empty());
    if !up {
        let what =
            "no network interface but the loopback has an address: ranks on other nodes cannot be reached";
        found.push(Problem::slow(what, "needed for several nodes only: ip link, ip address"));
    }
    report.problems.extend(found);
}

/// Nothing to choose, for ranks in some places.
fn choice(report: &Report, config: &Config) -> Vec<Problem> {
    let provider = &config.provider;
    // The name says that it carries one node only.
    let wanted = |w: &&Wire| *provider != Provider::Shm || w.ranks == wires::HERE;
    let lacking: Vec<&Wire> = report.wires.iter().filter(|w| w.wire.is_none()).filter(wanted).collect();
    let places: Vec<&str> = lacking.iter().map(|w| w.ranks).collect();
    if places.is_empty() {
        return Vec::new();
    }
    let what = format!("no wire for ranks {} (CIRCULANT_PROVIDER is {provider})", places.join(", or "));
    let remedy = match provider {
        Provider::Auto => "the table of providers says why; Debian's libfabric1 has what is needed for TCP",
        _ => "the tables of wires and providers say why; auto takes the best of all",
    };
    vec![Problem::serious(what, remedy)]
}

/// Devices for RDMA, of which none will do.
fn idle_hardware(report: &Report) -> Vec<Problem> {
    let there = |p: &&Found| p.provider == verbs::NAME && !p.domain.is_empty();
    let why = |p: &Found| p.one_node.as_ref().and_then(|judgement| judgement.rejected.clone());
    let native: Vec<(&Found, Option<String>)> =
        report.providers.iter().filter(there).map(|p| (p, why(p))).collect();
    if native.iter().any(|(_, why)| why.is_none()) {
        return Vec::new();
    }
    let told = |(p, why): (&Found, Option<String>)| {
        let why = why.unwrap_or_default();
        let (what, remedy) = why.split_once("; ").unwrap_or((&why, ""));
        Problem::slow(format!("RDMA hardware is not used: {}: {what}", p.domain), remedy)
    };
    native.into_iter().map(told).collect()
}

fn limits(report: &Report) -> Vec<Problem> {
    let l = &report.limits;
    let mut found = Vec::new();
    let is_rdma = |p: &Found| p.provider == verbs::NAME || quirk(&p.provider).class == Class::Rdma;
    let rdma = report.providers.iter().any(|p| p.is_there() && is_rdma(p));
    if let Some(memlock) = l.memlock.filter(|m| *m < MEMLOCK_LOW && rdma) {
        found.push(Problem::serious(
            format!("only {} of memory may be locked; RDMA hardware needs the registered memory locked", size(memlock)),
            "ulimit -l unlimited (for all users: a line \"* - memlock unlimited\" in /etc/security/limits.conf)",
        ));
    }
    match l.shm_free {
        None => found.push(Problem::serious(
            "there is no /dev/shm: no shared memory",
            "mount -t tmpfs tmpfs /dev/shm",
        )),
        Some(free) if free < SHM_LOW => found.push(Problem::serious(
            format!("only {} are free in /dev/shm", size(free)),
            "remove what was left there, or mount -o remount,size=50% /dev/shm (containers: --shm-size=1g)",
        )),
        Some(_) => {}
    }
    if let Some(scope) = l.ptrace_scope.filter(|s| *s > 0) {
        found.push(Problem::slow(
            format!("kernel.yama.ptrace_scope is {scope}: processes cannot read each other's memory, so libfabric's shm copies twice, and so do long calls of two ranks on our own shm"),
            "sysctl kernel.yama.ptrace_scope=0",
        ));
    }
    if l.huge_pages_transparent.as_deref() == Some("never") {
        found.push(Problem::slow(
            "transparent huge pages are off: more page table misses with large buffers",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ));
    }
    if l.cores == 1 {
        found
            .push(Problem::slow(format!("{} only: ranks on this machine take turns", plural(1, "core")), ""));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::provider::{Judgement, Library};
    use super::*;

    fn report() -> Report {
        let chosen = Judgement { score: 100, chosen: true, rejected: None };
        let mut report = Report {
            libfabric: Some(Library::default()),
            providers: vec![Found {
                provider: "verbs;ofi_rxm".to_owned(),
                domain: "rxe0".to_owned(),
                several_nodes: Some(chosen.clone()),
                one_node: Some(chosen),
                ..Found::default()
            }],
            ..Report::default()
        };
        report.wires = wires::wires(&Provider::Auto, &report.providers, &Ok(()));
        report.limits.cores = 4;
        report.limits.shm_free = Some(1 << 40);
        report
    }

    #[test]
    fn a_good_machine_has_none() {
        assert_eq!(limits(&report()), []);
        assert_eq!(choice(&report(), &Config::defaults()), []);
    }

    #[test]
    fn each_bad_thing_is_told_with_a_remedy() {
        let mut r = report();
        r.limits.memlock = Some(8 << 20);
        r.limits.shm_free = Some(0);
        r.limits.ptrace_scope = Some(1);
        r.limits.huge_pages_transparent = Some("never".to_owned());
        let found = limits(&r);
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|p| !p.remedy.is_empty()));
        assert!(found[0].what.contains("8 MiB") && found[0].remedy.contains("ulimit -l"), "{found:?}");
        r.providers[0].provider = "tcp".to_owned();
        assert_eq!(limits(&r).len(), 3, "memlock matters to verbs only");
        r.providers[0].several_nodes = None;
        r.wires = wires::wires(&Provider::Auto, &r.providers, &Ok(()));
        let found = choice(&r, &Config::defaults());
        assert!(found.len() == 1 && found[0].what.contains("several nodes"), "{found:?}");
        let mut config = Config::defaults();
        config.set("provider", "shm").unwrap();
        r.wires = wires::wires(&Provider::Shm, &r.providers, &Ok(()));
        assert_eq!(choice(&r, &config), []);
    }

    #[test]
    fn hardware_that_is_not_used_is_told_where_none_is() {
        let mut r = report();
        assert_eq!(idle_hardware(&r), []);
        let why = "cannot open rxe0: Permission denied; chmod a+rw it".to_owned();
        let refused = Some(Judgement { score: 0, chosen: false, rejected: Some(why) });
        let native = |domain: &str, one_node| Found {
            provider: verbs::NAME.to_owned(),
            domain: domain.to_owned(),
            one_node,
            ..Found::default()
        };
        r.providers.push(native("", refused.clone()));
        assert_eq!(idle_hardware(&r), [], "there is none");
        r.providers.push(native("rxe0:1", refused.clone()));
        let [found] = &idle_hardware(&r)[..] else { panic!("one") };
        assert!(found.what.ends_with("rxe0:1: cannot open rxe0: Permission denied"), "{found:?}");
        assert_eq!(found.remedy, "chmod a+rw it");
        let good = Judgement { score: 1000, chosen: true, rejected: None };
        r.providers.push(native("rxe1:1", Some(good)));
        assert_eq!(idle_hardware(&r), [], "another one is");
    }

    #[test]
    fn a_wrong_setting_is_a_problem() {
        let mut config = Config::defaults();
        config.set_deferred("deadline", "soon");
        config.set_deferred("windw", "64K");
        let mut r = report();
        find(&mut r, &config);
        let said: Vec<&str> = r.problems.iter().map(|p| p.what.as_str()).collect();
        for words in ["CIRCULANT_DEADLINE: \"soon\" is not", "did you mean \"window\"?"] {
            assert!(said.iter().any(|what| what.contains(words)), "{words} is missing in {said:?}");
        }
    }
}
