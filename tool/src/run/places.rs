//! Where the ranks of a job go.

use super::args::{RunArgs, Trouble, wrong};
use circulant_launcher::{Host, Starter, hosts};

/// The hosts, none being this machine alone, and what starts agents on them.
pub(super) fn hosts(args: &RunArgs) -> Result<(Vec<Host>, Starter), Trouble> {
    let exec = args.launcher_exec.clone().map(Starter::Exec);
    if let Some(list) = &args.hosts {
        let hosts = hosts::list(list).map_err(|e| wrong(format!("--hosts: {}", e.message())))?;
        return Ok((hosts, exec.unwrap_or(Starter::Ssh)));
    }
    if let Some(file) = &args.hostfile {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|e| wrong(format!("--hostfile: {shown}: {e}")))?;
        let hosts = hosts::file(&text).map_err(|e| wrong(format!("--hostfile: {shown}: {}", e.message())))?;
        return Ok((hosts, exec.unwrap_or(Starter::Ssh)));
    }
    if let Some(hosts) = slurm()? {
        return Ok((hosts, exec.unwrap_or(Starter::Srun)));
    }
    match exec {
        Some(_) => Err(wrong("--launcher-exec needs hosts: --hosts or --hostfile")),
        None => Ok((Vec::new(), Starter::Ssh)),
    }
}

/// The nodes of the Slurm allocation that we are in, with their tasks or, where none were asked for, processors.
fn slurm() -> Result<Option<Vec<Host>>, Trouble> {
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let nodes = variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST"));
    let (Some(nodes), Some(_)) = (nodes, variable("SLURM_JOB_ID")) else { return Ok(None) };
    let trouble = |name: &str, e: &circulant::Error| {
        wrong(format!("{name}: {}; to use this machine alone say --hosts localhost", e.message()))
    };
    let names = hosts::slurm_names(&nodes).map_err(|e| trouble("SLURM_JOB_NODELIST", &e))?;
    let mut counts = Vec::new();
    for name in ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"] {
        if let Some(text) = variable(name).filter(|_| counts.is_empty()) {
            counts = hosts::slurm_counts(&text).map_err(|e| trouble(name, &e))?;
        }
    }
    let host = |(i, name): (usize, String)| Host { name, slots: Some(counts.get(i).copied().unwrap_or(1)) };
    Ok(Some(names.into_iter().enumerate().map(host).collect()))
}
