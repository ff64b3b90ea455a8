//! A flag for each setting of the library.

use circulant::Result;
use circulant::config::{Config, FOR_EVER, OnFailure, SETTINGS, check_variable};
use circulant_launcher::App;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

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

/// What the launcher itself goes by.
pub(super) struct Checked {
    /// How long start-up may take.
    pub(super) start_timeout: Duration,
    pub(super) on_failure: OnFailure,
}

/// Refuses what every rank would refuse: in the environment, in flags, in variables for `apps`.
pub(super) fn check(given: &[(String, OsString)], apps: &[App]) -> Result<Checked> {
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    variables.extend(given.iter().map(|(name, value)| (name.into(), value.clone())));
    let of_apps = apps.iter().flat_map(|app| &app.environment).map(|(name, value)| (name, value));
    for (name, value) in variables.iter().chain(of_apps).filter(|(_, value)| !value.is_empty()) {
        check_variable(name, value)?;
    }
    let mut config = Config::from_env();
    for setting in ["start-deadline", "on-failure"] {
        let is = |name: &str| SETTINGS.iter().any(|s| s.name == setting && s.variable == name);
        if let Some(text) = given.iter().find(|(name, _)| is(name)).and_then(|(_, value)| value.to_str()) {
            config.set(setting, text)?;
        }
    }
    Ok(Checked { start_timeout: config.start_deadline.unwrap_or(FOR_EVER), on_failure: config.on_failure })
}
