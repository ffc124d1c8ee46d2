//! Checks the clock, the process's limits, containers, and Score-P.

use std::fs;
use std::path::Path;

use journal::clock::{TickSource, select};
use journal::format::SEGMENT_BYTES;
use rustix::process::{Resource, getrlimit};
use settings::ScorepMode;

use super::environment::Environment;
use super::report::Findings;
use crate::units;

/// Programs meant to run as process 1: they reap orphans.
const INITS: &str =
    "systemd init tini dumb-init docker-init catatonit podman-init s6-svscan runit openrc-init supervisord pause";

pub(super) fn clock(findings: &mut Findings) {
    let kernel = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let kernel = kernel.as_deref().map_or("not known", str::trim);
    let kernel = format!("the kernel's clock source is {kernel}");
    match select() {
        TickSource::Monotonic => findings.note(
            "clock",
            format!("times are read by clock_gettime, because the processor's counter is not invariant or not trusted ({kernel}): each callback costs some 25 ns more"),
            "dmesg says why the kernel left the counter (clocksource)",
        ),
        source => findings.ok("clock", format!("times are read from the processor's counter, {}; {kernel}", source.name())),
    }
}

pub(super) fn limits(findings: &mut Findings) {
    let soft = |resource: Resource| getrlimit(resource).current;
    if let Some(bytes) = soft(Resource::Fsize) {
        let (most, needed) = (format!("files may have {} (ulimit -f)", units::bytes(bytes)), SEGMENT_BYTES as u64);
        if bytes < needed {
            let text = format!("{most}: a journal needs {}, so nothing is recorded", units::bytes(needed));
            findings.problem("limits", text, "ulimit -f unlimited");
        } else {
            let text = format!("{most}: a journal is cut to that, an archive with larger files cannot be written");
            findings.warning("limits", text, "ulimit -f unlimited");
        }
    }
    match soft(Resource::Nofile) {
        Some(files) if files < 1024 => findings.warning(
            "limits",
            format!("{files} open files (ulimit -n): NCCL needs some for each peer"),
            "ulimit -n 65536",
        ),
        files => findings.ok(
            "limits",
            format!("{} open files", files.map_or_else(|| "unlimited".to_owned(), |files| files.to_string())),
        ),
    }
    let has_rdma = Path::new("/sys/class/infiniband").is_dir();
    match soft(Resource::Memlock) {
        Some(bytes) if has_rdma && bytes < 1 << 30 => findings.warning(
            "limits",
            format!(
                "{} of memory can be locked (ulimit -l): NCCL registers its buffers with the network adapter and fails",
                units::bytes(bytes)
            ),
            "ulimit -l unlimited (in Slurm: PropagateResourceLimits; docker run --ulimit memlock=-1)",
        ),
        Some(bytes) => {
            let rdma = if has_rdma { "" } else { "; there is no RDMA adapter that needs more" };
            findings.ok("limits", format!("{} of memory can be locked{rdma}", units::bytes(bytes)));
        }
        None => findings.ok("limits", "any memory can be locked"),
    }
}

pub(super) fn container(here: &Environment, findings: &mut Findings) {
    let files = ["/.dockerenv", "/run/.containerenv", "/.singularity.d"];
    let by_file = files.into_iter().find(|file| Path::new(file).exists());
    let variables = ["container", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "KUBERNETES_SERVICE_HOST"];
    let by_variable = variables.into_iter().find(|name| here.variable(name).is_some());
    let first = fs::read_to_string("/proc/1/comm").unwrap_or_default();
    let first = first.trim();
    let has_init = first.is_empty() || INITS.split(' ').any(|init| init == first);
    let Some(sign) = by_file.or(by_variable) else { return };
    if has_init {
        findings.ok("container", format!("a container ({sign}): run nccl-otf2 hang and finalize inside it"));
        return;
    }
    findings.note(
        "container",
        format!("a container ({sign}) whose process 1, {first}, is no init: processes whose parent was killed stay as zombies, and a launcher may wait for them"),
        "start it with an init (docker run --init); run nccl-otf2 hang and finalize inside the container",
    );
}

pub(super) fn scorep(here: &Environment, findings: &mut Findings) {
    let of_scorep =
        |name: &str, value: &str| name == "LD_PRELOAD" && value.contains("libscorep") || name.starts_with("SCOREP_");
    let variables = here.variables.pairs();
    let sign = variables.iter().find(|(name, value)| of_scorep(name, value)).map(|(name, _)| name);
    match (sign, here.config.scorep) {
        (Some(sign), ScorepMode::Off) => findings.note("scorep", format!("{sign} is set, and NCCL_OTF2_SCOREP=off: Score-P is shown nothing of NCCL"), "nccl-otf2 merge adds NCCL's archive to Score-P's trace afterwards"),
        (Some(sign), _) => findings.note("scorep", format!("{sign} is set: in a process that Score-P measures NCCL's calls are in its trace, too, and this project's archive is written beside"), "NCCL_OTF2_SCOREP=off if you are going to merge both (docs/SCOREP.md)"),
        (None, ScorepMode::On) => findings.warning("scorep", "NCCL_OTF2_SCOREP=on, and nothing here says that Score-P measures", "start an instrumented program, or leave the variable out"),
        (None, _) => {}
    }
}
