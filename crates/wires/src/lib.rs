//! Over which wires: what moved by each network interface, and what the graphs that NCCL chose allow.
//!
//! ```text
//!  archive's definitions ─► map        hosts, GPUs, interfaces, graphs; the interface of each connection
//!  map, network          ─┬► nics      traffic, rate and slowdown of interfaces; the interfaces of pairs and channels
//!                         └► expected  the bus bandwidth that NCCL's model allows a class of collectives
//! ```
//!
//! An archive without NCCL's dumps has none of this: its report stays as it is.
#![forbid(unsafe_code)]

mod expected;
mod map;
mod nics;

use std::sync::Arc;

use analysis::{Analysis, Filter, Trace, analyse_and};
use nccl_events::Progress;

use map::Map;
use nics::Traffic;

/// Analyses an archive, with what its topology tells.
pub fn analyse(trace: &Trace, filter: &Filter, progress: &dyn Progress) -> otf2::Result<Analysis> {
    let (mut analysis, traffic) = analyse_and(trace, filter, progress, |tables| {
        let map = Map::of(trace, tables).map(Arc::new);
        move || map.clone().map(|map| Traffic::of(trace, filter, map))
    })?;
    let Some(traffic) = traffic else {
        return Ok(analysis);
    };
    let map = Arc::clone(traffic.map());
    let Analysis { tables, report, .. } = &mut analysis;
    let mut topology = map.described(&report.communicators);
    report.nics = traffic.nics(&mut topology);
    nics::name(&mut report.pairs, tables, &map);
    nics::name(&mut report.channels, tables, &map);
    nics::name_causes(&mut report.causes, &mut report.verdict, &report.pairs, &report.nics, &report.ranks);
    expected::add(trace, tables, filter, &map, &mut report.operations);
    report.topology = Some(topology);
    Ok(analysis)
}
