//! What a rank says on stderr while it waits, each minute: for which ranks, and what is known of them.
//!
//! Of ranks that wait in the same call or agreement the lowest says it, as statuses tell which do. The others are silent there: their
//! words would be the same, or name the ranks that wait, too.

use super::driver::Engine;
use super::message::{Mark, Message};
use super::setup::ProcessState;
use super::task::Missing;
use super::waiting::{Goal, MAX_STATES_LISTED, Waiting, ranks};
use std::time::Duration;
use tracing::level_filters::LevelFilter;

impl Engine {
    /// Warns on stderr for which ranks we wait, if no lower rank does.
    pub(super) fn warn(&mut self, waiting: &Waiting, since: Duration) {
        if let Some(text) = self.warning(waiting, since) {
            crate::trace::warn(&text, LevelFilter::WARN);
        }
    }

    /// The warning of a wait that lasts; `None` where a lower rank waits in the same call or agreement, and warns.
    pub(super) fn warning(&mut self, waiting: &Waiting, since: Duration) -> Option<String> {
        let mark = waiting.mark();
        if mark.code != 0 && self.is_said_by_another(mark) {
            return None;
        }
        let text = match waiting.goal {
            Goal::Call if mark.code != 0 => self.warning_of_call(mark, since),
            _ => self.warning_of_others(waiting, since),
        };
        Some(format!("{text} (rank {} waits)", self.core.setup.rank))
    }

    /// Whether a lower rank waits there, too.
    fn is_said_by_another(&self, mark: Mark) -> bool {
        let lower = self.members(mark.call).into_iter().take_while(|rank| *rank < self.core.setup.rank);
        lower
            .filter_map(|rank| self.status_of(rank))
            .any(|status| status.waits == mark && status.completed.call != mark.call)
    }

    /// Of a wait for an operation: which ranks have not come to it.
    fn warning_of_call(&mut self, mark: Mark, since: Duration) -> String {
        let states = self.states(mark.call);
        let silent = self.silent(mark.call);
        let call = self.name_of_call(mark);
        let elsewhere: Vec<_> = states.iter().filter(|(s, _)| s.entered.call != mark.call).collect();
        let late: Vec<u32> = elsewhere.iter().flat_map(|(_, list)| list).chain(&silent).copied().collect();
        let mut text = match late.len() {
            0 => format!("all ranks are in {call} for {} s", since.as_secs()),
            1 => format!("rank {} has not come to {call} for {} s", late[0], since.as_secs()),
            _ => format!("{} have not come to {call} for {} s", ranks(&late), since.as_secs()),
        };
        for (status, list) in elsewhere.iter().take(MAX_STATES_LISTED) {
            text.push_str(&format!("; {}", self.state_of(list, status)));
        }
        if let Some(is) = self.how_silent(&silent) {
            text.push_str(&format!("; {is}"));
        }
        text
    }

    /// Of a wait for something else: for which ranks, and what they do.
    fn warning_of_others(&mut self, waiting: &Waiting, since: Duration) -> String {
        let awaited = self.awaited_ranks(waiting);
        let of = match awaited.as_slice() {
            [] => "messages of its own that the wire has not taken".to_owned(),
            list => ranks(list),
        };
        let (name, seconds) = (waiting.what.name, since.as_secs());
        let mut text = match waiting.goal {
            Goal::Agreement(_) => {
                let call = self.name_of_call(waiting.mark());
                let name = match name {
                    "agree" => call,
                    // On a communicator of the library's own.
                    "finalize" => name.to_owned(),
                    name => format!("{name} ({call})"),
                };
                format!("{name} waits for {of} for {seconds} s")
            }
            Goal::Requests => format!("{name} waits for {of} for {seconds} s, in {}", self.unfinished()),
            Goal::Goodbye => format!("{name} waits for the goodbye of {of} for {seconds} s"),
            Goal::Wire(_) => format!("the measuring of the wire waits for {of} for {seconds} s"),
            Goal::Call => format!("a wait for {of} lasts for {seconds} s"),
        };
        for (status, list) in self.states_of(&awaited).iter().take(MAX_STATES_LISTED) {
            text.push_str(&format!("; {}", self.state_of(list, status)));
        }
        let silent: Vec<u32> = awaited.into_iter().filter(|rank| self.is_silent(*rank)).collect();
        if let Some(is) = self.how_silent(&silent) {
            text.push_str(&format!("; {is}"));
        }
        text
    }

    /// What is known of ranks that do not answer.
    fn how_silent(&mut self, silent: &[u32]) -> Option<String> {
        let state = self.liveness.as_mut().and_then(|l| l.state(*silent.first()?));
        Some(match (state, silent) {
            (_, []) => return None,
            (Some(ProcessState::Stopped), [_]) => "it is stopped by a signal".to_owned(),
            (Some(ProcessState::Lives), [_]) => "it lives, in no call".to_owned(),
            (None, [_]) => "it does not answer: it computes, is stopped, or is cut off".to_owned(),
            _ => format!("{} do not answer: they compute, are stopped, or cut off", ranks(silent)),
        })
    }

    /// World ranks that this wait is for, in order, as far as they are known.
    pub(super) fn awaited_ranks(&self, waiting: &Waiting) -> Vec<u32> {
        let core = &self.core;
        let unsent = |slot: Option<u8>| core.outbox.iter().filter(move |q| q.slot == slot).map(|q| q.to);
        let mut list: Vec<u32> = match waiting.goal {
            Goal::Agreement(id) => {
                let agreement = core.survivors.agreements.get(&id);
                agreement.map(|a| a.awaited(&core.survivors.gone)).unwrap_or_default()
            }
            Goal::Wire(peer) => vec![peer],
            Goal::Goodbye => {
                let silent = core.setup.neighbours.iter().filter(|rank| !core.byes.contains(rank));
                let bye = core.outbox.iter().filter(|q| matches!(q.message, Message::Bye)).map(|q| q.to);
                silent.copied().chain(bye).filter(|rank| !core.is_gone(*rank)).collect()
            }
            Goal::Call | Goal::Requests => {
                let slots = core.active.slots().filter(|slot| !core.finished(*slot));
                let of = |slot: u8| {
                    let missing = core.task_ref(slot).and_then(|task| task.missing());
                    missing.map(|(peer, ..)| peer).into_iter().chain(unsent(Some(slot)))
                };
                slots.flat_map(of).collect()
            }
        };
        list.sort_unstable();
        list.dedup();
        list
    }

    /// "bcast #4 (512 bytes of round 2 did not come)": an operation that has not ended here.
    fn unfinished(&self) -> String {
        let core = &self.core;
        let task =
            core.active.slots().find(|slot| !core.finished(*slot)).and_then(|slot| core.task_ref(slot));
        let Some(task) = task else { return "no operation".to_owned() };
        let call = self.name_of_call(Mark { code: task.meta.code, call: task.meta.call });
        let what = task.missing().map_or(Missing::Acknowledgement, |(_, _, what)| what);
        format!("{call} ({what})")
    }
}
