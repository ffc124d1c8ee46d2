//! Predicts what a recording with an NCCL library would be like.

use std::path::Path;

use archive::blind_spots;
use nccl_events::{Kind, Table, event};
use settings::kernel_channels;

use super::environment::Environment;
use super::find::Found;
use super::report::{Findings, NcclRow};
use super::slot::slot;
use super::storage;
use crate::slot::Nccl;
use nccl_events::versions;

pub(super) fn judge(here: &Environment, found: &Found, findings: &mut Findings) -> NcclRow {
    let Found { library, nccl, by } = found;
    let (release, path) = (&nccl.release, library.path.display());
    let name = if nccl.is_rccl { "RCCL" } else { "NCCL" };
    let cuda = nccl.cuda.as_ref().map_or_else(String::new, |cuda| format!(" for CUDA {cuda}"));
    let text = format!("{name} {release}{cuda} in {path} ({by})");
    let mut row = NcclRow {
        path: path.to_string(),
        found_by: by.clone(),
        is_rccl: nccl.is_rccl,
        release: release.clone(),
        cuda: nccl.cuda.clone(),
        table: nccl.called().map_or(0, Table::number),
        plugin_names: Vec::new(),
        plugin: None,
        profiler: None,
        blind_spots: Vec::new(),
    };
    let Some(table) = nccl.called() else {
        let text = format!("{text} has no profiler plugins: nothing of it can be recorded");
        findings.problem("nccl", text, "NCCL 2.23 or later");
        return row;
    };
    if nccl.is_rccl {
        let text = format!("{text}: table {table} is used, as RCCL's sources say; it was not run");
        findings.warning("nccl", text, "docs/RELEASES.md §3; look at the archive with nccl-otf2 check");
    } else {
        findings.ok("nccl", format!("{text}: table {table} is used"));
        row.blind_spots = blind_spots(nccl.number, here.config.mask, allgatherv_off(here));
        broadcasts(here, nccl, findings);
        known_problems(here, nccl, table, findings);
    }
    if nccl.table > table.number() {
        let text =
            format!("{name} {release} has table v{}, newer than this plugin's {table}: NCCL translates", nccl.table);
        findings.note("nccl", text, "look for a newer version of this project");
    }
    slot(here, library, nccl.number, &mut row, findings);
    row
}

fn allgatherv_off(here: &Environment) -> bool {
    here.variable(versions::VARIABLE).is_some_and(versions::is_off)
}

fn broadcasts(here: &Environment, nccl: &Nccl, findings: &mut Findings) {
    match nccl.number >= versions::FIRST {
        false => {}
        true if allgatherv_off(here) => findings.ok("events", versions::WAY_OUT),
        true => {
            let text = "calls of ncclBroadcast will be recorded, but neither the operations nor their network traffic";
            findings.note("events", format!("NCCL {}: {text}", nccl.release), versions::WAY_OUT);
        }
    }
}

fn known_problems(here: &Environment, nccl: &Nccl, table: Table, findings: &mut Findings) {
    let release = &nccl.release;
    if here.config.mask & Kind::KernelCh.mask() != 0 && event::has(table, Kind::KernelCh) {
        let text =
            format!("kernel channels are to be recorded: {}", kernel_channels(nccl.number, allgatherv_off(here)));
        findings.warning("events", text, "NCCL_OTF2_EVENTS=standard records without them");
        if let Some(bytes) = storage::free_bytes(Path::new("/dev/shm")).filter(|bytes| *bytes < storage::SMALL_SHM) {
            findings.warning(
                "events",
                format!(
                    "kernel channels and a /dev/shm with {} free: NCCL can crash in ncclLocalOpAppend",
                    crate::units::bytes(bytes)
                ),
                "a larger /dev/shm (docker run --shm-size=8g), or NCCL_OTF2_EVENTS=standard",
            );
        }
    }
    if (22_703..22_800).contains(&nccl.number)
        && let Some(plugin) = here.variable("NCCL_NET_PLUGIN").filter(|plugin| *plugin != "none")
    {
        let text = format!(
            "NCCL_NET_PLUGIN={plugin}: NCCL {release} crashes, with any profiler, when a network plugin that reports events merges messages of a group"
        );
        findings.warning("events", text, "NCCL 2.28 or later, or a network plugin without profiler events");
    }
    if !table.facts().describes_communicators {
        findings.note(
            "events",
            format!("NCCL {release} gives plugins no log, and neither names nor sizes of communicators; who is the last process is known only from the launcher"),
            "NCCL_OTF2_VERBOSITY=verbose shows on stderr what is recorded; nccl-otf2 finalize makes the archive if no process is the last",
        );
    }
}
