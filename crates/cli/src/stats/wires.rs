//! The sheet of network interfaces, and their names for other sheets.

use std::collections::BTreeSet;

use analysis::results::{Nic, Report, Run};
use nccl_events::ids::index;
use nccl_events::sort::Gather;

use super::cells::{of, text, time};
use crate::sheet::{Cell, Sheet};
use crate::units::{self, plural};

/// Why there are no interfaces.
pub(super) fn no_nics(report: &Report) -> &'static str {
    match &report.topology {
        Some(topology) if !topology.unused.is_empty() => {
            "NCCL's dumps of its topology could not be used: `stats --json` has the reasons, in topology.unused"
        }
        _ => "NCCL's topology was not recorded: that takes nccl-otf2 run, without --topology off",
    }
}

/// More names of interfaces in a cell are left out.
const MOST_NAMES: usize = 4;

pub(super) fn nics(report: &Report) -> Sheet {
    let mut sheet = Sheet::of(
        "network interfaces: what they sent and received",
        report.nics.iter().map(|nic| (report, nic)),
        &[
            ("host", |(report, it)| text(host(report, it))),
            ("nic", |(_, it)| text(&it.name)),
            ("sent", |(_, it)| of(it.sent_bytes, Cell::Bytes)),
            ("received", |(_, it)| of(it.received_bytes, Cell::Bytes)),
            ("busy", |(_, it)| of(it.busy_ns, time)),
            ("rate", |(_, it)| of(it.rate, Cell::Rate)),
            ("speed", |(_, it)| of(it.speed, Cell::Rate)),
            ("share", |(_, it)| of(it.share, Cell::Share)),
            ("slowdown", |(_, it)| of(it.slowdown, Cell::Number)),
            ("+steps", |(_, it)| Cell::Count(it.steps)),
            ("+pci", |(_, it)| text(&it.pci)),
            ("+gdr", |(_, it)| text(if it.gdr { "yes" } else { "no" })),
        ],
    );
    let sizes = "NCCL reported no sizes of network steps, which it does from 2.27 on";
    let sizes = if report.run.has_steps { sizes } else { Run::CONNECTIONS_NOT_MEASURED };
    let is_unknown = report.nics.iter().all(|nic| nic.sent_bytes.is_none());
    let (elsewhere, unused) = report.topology.as_ref().map_or((0, &[][..]), |it| (it.bytes_elsewhere, &it.unused));
    let bytes = units::bytes(elsewhere);
    let remarks = [
        is_unknown.then(|| sizes.to_owned()),
        report.nics.iter().any(|nic| nic.rate.is_some() && nic.speed.is_some() && nic.share.is_none()).then(|| {
            "no share is shown of a speed below the rate: NCCL assumes a speed where the system states none".to_owned()
        }),
        (elsewhere > 0).then(|| format!("{bytes} more were sent over interfaces that NCCL's graphs do not name")),
        unused.first().map(|first| {
            let dumps = plural(unused.len() as u64, "dump", "dumps");
            format!(
                "{dumps} of NCCL's topology could not be used: {first}{}",
                if unused.len() > 1 { "; …" } else { "" }
            )
        }),
    ];
    let remarks: Vec<String> = remarks.into_iter().flatten().collect();
    sheet.remark = (!remarks.is_empty()).then(|| remarks.join(". "));
    sheet
}

fn host(report: &Report, nic: &Nic) -> String {
    let hosts = report.topology.as_ref().map(|it| &it.hosts);
    hosts.and_then(|hosts| hosts.get(index(nic.host))).map(|host| host.name.clone()).unwrap_or_default()
}

/// As in `mlx5_0, mlx5_1`; empty if none is known.
pub(super) fn names(report: &Report, nics: &[u32]) -> Cell {
    let names: BTreeSet<&str> =
        nics.iter().filter_map(|number| report.nics.get(index(*number))).map(|nic| nic.name.as_str()).gather();
    let shown: Vec<&str> = names.iter().copied().take(MOST_NAMES).collect();
    match (names.len(), shown.join(", ")) {
        (0, _) => Cell::None,
        (number, shown) if number > MOST_NAMES => text(format!("{shown} …")),
        (_, shown) => text(shown),
    }
}

/// Words separated by commas; empty if there is none.
pub(super) fn words(words: &[String]) -> Cell {
    if words.is_empty() { Cell::None } else { text(words.join(", ")) }
}
