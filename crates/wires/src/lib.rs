//! Over which wires: what moved by each network interface, and what the graphs that NCCL chose allow.
//!
//! ```text
//!  archive's definitions ─► map        hosts, GPUs, interfaces, graphs; the interface of each connection
//!  map, tables           ─┬► nics      traffic, rate and slowdown of interfaces; the interfaces of pairs and channels
//!                         └► expected  the bus bandwidth that NCCL's model allows a class of collectives
//! ```
//!
//! An archive without NCCL's dumps has none of this: its report stays as it is.
#![forbid(unsafe_code)]

mod expected;
mod map;
mod nics;

use analysis::{Analysis, Filter, Trace};

use map::Map;

/// Adds to a report what the archive's topology tells.
pub fn add(trace: &Trace, analysis: &mut Analysis, filter: &Filter) {
    let Some(map) = Map::of(trace, &analysis.tables) else {
        return;
    };
    let Analysis { tables, report, .. } = analysis;
    let mut topology = map.described(&report.communicators);
    report.nics = nics::traffic(trace, tables, filter, &map, &mut topology);
    nics::name(&mut report.pairs, tables, &map);
    nics::name(&mut report.channels, tables, &map);
    expected::add(trace, tables, filter, &map, &mut report.operations);
    report.topology = Some(topology);
}
