//! The launcher behind `circulant run`: starts ranks on this machine and, through agents, on others; serves
//! PMI-1 to them, copies what they print, and ends the job when a rank fails. One thread does everything but
//! copying, sleeping in epoll; it must be the process's main thread, because a rank dies with the thread that
//! started it.
//!
//! An agent is this executable on another host, started by ssh or a stand-in and connected by its standard
//! input and output. It is the same code (`job`) with another head: the launcher decides, an agent passes
//! what happens up and what was decided down. Each starts at most [`Options::fanout`] agents, which start the
//! others. Puts and barriers of PMI are answered where they are made and go up and down the tree
//! once per barrier.

mod agent;
mod bind;
mod end;
mod fields;
pub mod hosts;
mod input;
mod job;
mod link;
pub mod message;
mod options;
mod output;
mod pmi;
mod poll;
mod report;
pub mod setup;
mod signals;
mod spawn;
mod tie;

pub use agent::agent_main;
pub use hosts::Host;
pub use job::run;
pub use options::{EXIT_TIMEOUT, Options, Starter};
pub use pmi::{Outcome, Pmi};
pub use setup::{App, Bind, Input, Map};
pub use spawn::{AGENT, REFUSE, WATCH, refuse_main, watch_main};
