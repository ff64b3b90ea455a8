//! The agents that we started, and the one that started us.

use super::branch::{Branch, PARTING, Stage, name};
use super::state::{FIRST_BRANCH, Head, Job, UP};
use crate::end::End;
use crate::message::{Down, Greeting, Sink, Up};
use crate::output::say;
use crate::setup::{Input, Site, branches};
use circulant::error::Result;
use circulant::launch::wire::quote;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most that may come before an agent's greeting.
const NOISE_MAX: usize = 64 * 1024;

impl Job {
    /// Starts agents, each of which starts those below it.
    pub(super) fn branch_out(&mut self, others: &[Site]) -> Result<()> {
        for (token, sites) in (FIRST_BRANCH..).step_by(2).zip(branches(others, self.setup.fanout)) {
            self.branches.push(Branch::start(&self.setup, sites, &self.poll, token));
        }
        Ok(())
    }

    pub(super) fn pass_down(&mut self, message: &Down) {
        let first_only = self.setup.input == Input::First;
        let mut frame: Option<Arc<[u8]>> = None;
        for branch in self.branches.iter_mut().filter(|b| b.concerns(message, first_only)) {
            let Some(link) = &mut branch.link else { continue };
            let frame = frame.get_or_insert_with(|| message.encode().into());
            link.send(&self.poll, Arc::clone(frame));
            branch.untaken |= matches!(message, Down::Input(_));
        }
    }

    /// From an agent: its greeting, then its messages.
    pub(super) fn listen_below(&mut self, token: u64) {
        let index = usize::try_from(token / 2).unwrap_or(usize::MAX);
        let Some(branch) = self.branches.get_mut(index) else { return };
        let Some(link) = &mut branch.link else { return };
        if token % 2 == 1 {
            return link.flush(&self.poll);
        }
        let open = link.read();
        loop {
            let branch = &mut self.branches[index];
            let Some(link) = &mut branch.link else { return };
            if !branch.greeted {
                match link.frames.line() {
                    Some(line) => self.greeted(index, &line),
                    None if link.frames.len() > NOISE_MAX => {
                        return self.lost(index, "it says something else than an agent would".to_owned());
                    }
                    None => break,
                }
                continue;
            }
            match link.frames.pop().map(|f| f.map(|(kind, payload)| Up::decode(kind, &payload))) {
                Ok(Some(Some(message))) => self.hear(index, message),
                Ok(None) => break,
                _ => return self.lost(index, "what its agent says makes no sense".to_owned()),
            }
        }
        if !open {
            self.hung_up(index);
        }
    }

    fn greeted(&mut self, index: usize, line: &[u8]) {
        let branch = &mut self.branches[index];
        match Greeting::of(line, &self.setup.secret) {
            Greeting::Right => {
                branch.greeted = true;
                if let Stage::Starting(_) = branch.stage {
                    branch.stage = Stage::Up;
                }
            }
            Greeting::Wrong => self.lost(index, "its agent does not know the job's secret".to_owned()),
            Greeting::Noise if line.trim_ascii().is_empty() => {}
            Greeting::Noise => say(&format!("{} says {}", branch.sites[0].name, quote(line))),
        }
    }

    fn hear(&mut self, index: usize, message: Up) {
        let branch = &mut self.branches[index];
        match message {
            Up::Fence(mut pairs) if !branch.fenced => {
                branch.fenced = true;
                self.gathered.append(&mut pairs);
                self.advance_fence();
            }
            Up::Fence(_) => {}
            Up::Taken => branch.untaken = false,
            Up::Done => branch.leave(&self.poll),
            other => self.event(other),
        }
    }

    /// The connection ended before all was done. Its starter's end may tell why.
    fn hung_up(&mut self, index: usize) {
        let branch = &mut self.branches[index];
        if let Some(mut link) = branch.link.take() {
            link.close(&self.poll);
        }
        match branch.ended {
            Some(_) => self.lost_for_reason(index),
            None if branch.is_alive() => branch.stage = Stage::Closing(Instant::now() + PARTING),
            None => {}
        }
    }

    fn lost_for_reason(&mut self, index: usize) {
        let branch = &mut self.branches[index];
        let starter = name(&self.setup.starter);
        let why = match (branch.trouble.take(), branch.ended) {
            (Some(trouble), _) => trouble,
            (None, Some(end)) => format!(
                "{starter} {}{}",
                if matches!(end, End::Signal(_)) { "was " } else { "" },
                end.words()
            ),
            (None, None) => "its agent ended".to_owned(),
        };
        self.lost(index, why);
    }

    /// An agent is lost, and with it all below.
    fn lost(&mut self, index: usize, why: String) {
        let branch = &mut self.branches[index];
        let (host, up) = (branch.sites[0].index, branch.greeted);
        branch.leave(&self.poll);
        self.event(Up::Lost(host, up, why));
    }

    pub(super) fn look_at_starters(&mut self) {
        for index in 0..self.branches.len() {
            let branch = &mut self.branches[index];
            let Some((_, pid)) =
                branch.child.as_ref().filter(|_| branch.ended.is_none() && !branch.is_gone())
            else {
                continue;
            };
            let Some(end) = End::of(*pid) else { continue };
            branch.ended = Some(end);
            match branch.stage {
                Stage::Leaving(_) => branch.reap(),
                Stage::Gone => {}
                _ if branch.link.is_none() => self.lost_for_reason(index),
                // What it said last may still be on its way.
                _ => branch.stage = Stage::Closing(Instant::now() + PARTING / 4),
            }
        }
    }

    pub(super) fn look_at_branches(&mut self, now: Instant) {
        for index in 0..self.branches.len() {
            let branch = &mut self.branches[index];
            if branch.due().is_none_or(|t| now < t) {
                continue;
            }
            match branch.stage {
                Stage::Starting(_) => {
                    let limit = self.setup.start_timeout();
                    self.lost(index, format!("its agent did not come up within {limit:?}"));
                }
                Stage::Closing(_) => self.lost_for_reason(index),
                Stage::Leaving(_) => branch.reap(),
                Stage::Up | Stage::Gone => {}
            }
        }
    }

    /// Gives up agents that did not come up yet: there is nothing for them to do any more. Gives their hosts.
    pub(super) fn drop_starting(&mut self) -> Vec<usize> {
        let mut hosts = Vec::new();
        for branch in self.branches.iter_mut().filter(|b| !b.greeted && b.is_alive()) {
            hosts.extend(branch.sites.iter().map(|s| s.index));
            branch.leave(&self.poll);
        }
        hosts
    }

    /// Every site that is lost with the agent on `host`.
    pub(super) fn lost_with(&self, host: usize) -> Vec<Site> {
        let branch = self.branches.iter().find(|b| b.has(host));
        branch.map_or_else(Vec::new, |b| crate::setup::below(&b.sites, host, self.setup.fanout))
    }

    /// From the process that started us. Its silence is the end.
    pub(super) fn listen_up(&mut self, token: u64) {
        let Head::Agent(up) = &mut self.head else { return };
        if token != UP {
            return up.flush(&self.poll);
        }
        let open = up.read();
        while let Head::Agent(up) = &mut self.head {
            match up.frames.pop().map(|f| f.map(|(kind, payload)| Down::decode(kind, &payload))) {
                Ok(Some(Some(message))) => self.down(message),
                Ok(None) => break,
                _ => {
                    say("what the launcher says makes no sense");
                    self.give_up = true;
                    break;
                }
            }
        }
        self.give_up |= !open;
    }

    /// Waits until the launcher has all that we said.
    pub(super) fn flush_up(&mut self, until: Instant) {
        let Head::Agent(up) = &mut self.head else { return };
        while !up.is_flushed() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            up.flush(&self.poll);
        }
    }

    /// A piece of standard input for the ranks here.
    pub(super) fn feed(&mut self, piece: Vec<u8>) {
        self.fed = true;
        self.feeding = self.feeder.as_ref().is_some_and(|f| f.feed(piece));
    }

    pub(super) fn look_at_input(&mut self) {
        if self.feeding && self.feeder.as_ref().is_none_or(crate::input::Feeder::is_taken) {
            self.feeding = false;
        }
        if self.fed && !self.feeding && !self.branches.iter().any(|b| b.untaken) {
            self.fed = false;
            match (&mut self.head, &self.reader) {
                (Head::Agent(up), _) => up.send(&self.poll, Up::Taken.encode()),
                (Head::Root(_), Some(reader)) => reader.go_on(),
                (Head::Root(_), None) => {}
            }
        }
        if let Some(piece) = self.reader.as_ref().and_then(crate::input::Reader::take) {
            self.down(Down::Input(piece));
        }
    }

    /// The launcher's: tells agents what was written of what they sent.
    pub(super) fn account_for_output(&mut self) {
        for sink in [Sink::Output, Sink::Error] {
            let Some(forwarder) = self.forwarders.get(sink.index()) else { return };
            let (written, broken) = (forwarder.take_written(), forwarder.is_broken());
            let Head::Root(control) = &mut self.head else { return };
            let mut sums = std::collections::BTreeMap::new();
            for (rank, len) in written {
                *sums.entry(control.host_of(rank)).or_insert(0) += len;
            }
            let shut = broken && !std::mem::replace(&mut control.shut[sink.index()], true);
            for (host, len) in sums {
                self.pass_down(&Down::Credit(host, sink, len));
            }
            if shut {
                self.down(Down::Shut(sink));
            }
        }
    }
}
