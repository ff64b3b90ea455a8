//! A flag for each setting of the library.

use circulant::config::{Config, SETTINGS};
use circulant::transport::fabric::Interfaces;
use circulant::{Error, ErrorKind, Result};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::ffi::OsString;

/// The flags that were given, one for each line of the settings table, as variables for the ranks.
#[derive(Debug)]
pub(crate) struct SettingFlags(pub(super) Vec<(String, OsString)>);

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |s: &circulant::config::Setting| {
            let value = matches.get_one::<OsString>(s.name)?;
            Some((s.variable.to_owned(), value.clone()))
        };
        Ok(Self(SETTINGS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, s| {
            let arg = Arg::new(s.name)
                .long(s.name)
                .value_name("VALUE")
                .value_parser(clap::value_parser!(OsString))
                .help(format!("{} [{}, default {}]", s.text, s.variable, s.default))
                .help_heading("Settings of the ranks");
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The settings that are looked at before any rank is.
const CHECKED: [&str; 7] = ["deadline", "start-deadline", "rails", "ports", "blocks", "window", "light"];

/// Refuses settings that every rank would refuse; gives how long start-up may take.
pub(super) fn check(given: &[(String, OsString)]) -> Result<std::time::Duration> {
    let mut config = Config::defaults();
    if let Some(text) = std::env::var("CIRCULANT_START_DEADLINE").ok().filter(|t| !t.is_empty()) {
        config.set("start-deadline", &text)?;
    }
    for (variable, value) in given {
        let text = value
            .to_str()
            .ok_or_else(|| Error::new(ErrorKind::Config, format!("{variable}: its value is not Unicode")))?;
        if let Some(s) = SETTINGS.iter().find(|s| CHECKED.contains(&s.name) && s.variable == variable) {
            config.set(s.name, text)?;
        }
    }
    for name in ["deadline", "start-deadline"] {
        config.seconds(name)?;
    }
    config.text("rails").parse::<Interfaces>()?;
    config.range("ports")?;
    config.number("blocks")?;
    config.bytes("window")?;
    config.bytes("light")?;
    config.seconds("start-deadline")
}
