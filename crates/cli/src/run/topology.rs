//! Has NCCL write what it knows of the hosts and which channels it chose.

use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow};
use journal::part::environment::JobEnvironment;
use journal::part::{DUMPS, Dump};

use settings::TopologyChoice;

use super::request::Request;
use super::settings::Variables;
use crate::print;
use journal::{host, part};

/// There where NVLink connects GPUs of several hosts.
const LINKED_HOSTS: &str = "/dev/nvidia-caps-imex-channels";

/// NCCL's variables for dumps into the job's directory. None if they are unwanted, or if the user has set one.
pub(super) fn variables(out: &Path, request: &Request, job: &JobEnvironment) -> Result<Variables> {
    let set = crate::slot::Variables::of_process();
    let choice = request.settings.topology(set.pairs());
    if choice == TopologyChoice::Off {
        return Ok(Variables::new());
    }
    let is_first = job.rank.unwrap_or(0) == 0;
    let names = || Dump::ALL.into_iter().flat_map(|dump| [dump.variable(), dump.rank_variable()]);
    if let Some(setting) = names().find_map(|name| set.get(name)) {
        if is_first {
            print::note(format_args!("{setting} stays: the archive has what NCCL writes there, if it can be found"));
        }
        return Ok(Variables::new());
    }
    if choice == TopologyChoice::Auto && Path::new(LINKED_HOSTS).exists() {
        // From 2.24 on the processes of linked hosts write together: one without the variable would hold up all.
        if is_first {
            print::note(
                "NVLink may connect this host with others: NCCL's topology is not recorded (--topology on, if all of the \
                 job's processes run under this tool)",
            );
        }
        return Ok(Variables::new());
    }
    let directory = out.join(DUMPS);
    if let Err(error) = host::directories(&directory) {
        if is_first {
            let directory = directory.display();
            print::note(format_args!(
                "cannot make {directory} ({error}): NCCL's topology is not recorded (remove what is there, or choose \
                 --topology off)"
            ));
        }
        return Ok(Variables::new());
    }
    let mut variables = Variables::new();
    for dump in Dump::ALL {
        let path = directory.join(dump.file_name(0, 0));
        let path = path.to_str().ok_or_else(|| anyhow!("{}: the name is not UTF-8", path.display()))?;
        variables.push((dump.variable(), path.into()));
        variables.push((dump.rank_variable(), part::rank(Some(0)).into()));
    }
    Ok(variables)
}

/// Removes the directory of dumps if there are none.
pub(super) fn tidy(out: &Path) {
    // Fails unless it is empty.
    let _has_dumps = fs::remove_dir(out.join(DUMPS));
}
