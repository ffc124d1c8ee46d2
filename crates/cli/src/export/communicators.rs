//! Exports one archive per communicator, for Scalasca's analyser.

use std::path::Path;

use analysis::{Filter, Trace};
use anyhow::{Context as _, Result, bail};
use exports::scalasca::Communicator;
use exports::scalasca::complete::{self, LeftOut};
use nccl_events::Progress as _;
use otf2::{CommRef, LocationRef};
use schemars::JsonSchema;
use serde::Serialize;

use crate::archive::{is_merged, is_nccl};
use crate::exit::Exit;
use crate::print::{self, Text};
use crate::progress::Bar;
use crate::staging::Staging;
use crate::table::{ColumnOf, Side, Table};
use crate::units::plural;
use archive::ANCHOR;

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Exported {
    name: String,
    ranks: usize,
    archive: Option<String>,
    reason: Option<String>,
    collectives: usize,
    messages: usize,
    collectives_left_out: u64,
    messages_left_out: u64,
    left_out: Vec<LeftOut>,
    events_moved: u64,
    moved_ns: u64,
    processes: Vec<String>,
}

/// What `export --format scalasca --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Json {
    format: u32,
    communicators: Vec<Exported>,
}

pub(super) fn export(trace: &Trace, filter: &Filter, out: &Path, is_json: bool) -> Result<Exit> {
    if !is_nccl(&trace.archive) || is_merged(&trace.archive) {
        bail!("{} is not an archive of NCCL's alone", trace.anchor.display());
    }
    if !(filter.functions.is_empty() && filter.ranks.is_empty() && filter.from_ns.or(filter.to_ns).is_none()) {
        bail!("--rank, --function, --from and --to: the analyser needs all that all ranks did; only --comm goes");
    }
    let staging = Staging::create(out)?;
    let lacks = complete::incompleteness(trace);
    let bar = Bar::new();
    let comms = trace.definitions.comms.keys().copied().enumerate();
    let is_wanted = |comm: &CommRef| filter.communicators.is_empty() || filter.communicators.contains(comm);
    let comms: Vec<(usize, CommRef)> = comms.filter(|(_, comm)| is_wanted(comm)).collect();
    bar.begin("communicators", comms.len() as u64);
    let mut all = Vec::new();
    for (number, comm) in comms {
        all.push(one(trace, (comm, number), lacks.as_deref(), &staging, out)?);
        bar.step();
    }
    drop(bar);
    let left_out = all.iter().filter(|it| it.archive.is_none()).count();
    let is_any = left_out < all.len();
    if is_any {
        staging.put_in_place()?;
    }
    if is_json {
        print::json(&Json { format: 1, communicators: all })?;
    } else {
        print::text(&text(&all))?;
    }
    Ok(match (is_any, left_out) {
        (true, 0) => Exit::Well,
        (true, _) => Exit::Problems,
        (false, _) => Exit::CannotDo,
    })
}

fn one(
    trace: &Trace,
    (comm, number): (CommRef, usize),
    lacks: Option<&str>,
    staging: &Staging,
    out: &Path,
) -> Result<Exported> {
    let members = trace.members(comm);
    let process = |location: &LocationRef| trace.group_name(trace.process(trace.group(*location))).to_owned();
    let mut exported = Exported {
        name: trace.comm_name(comm),
        ranks: members.len(),
        processes: members.iter().map(process).collect(),
        ..Exported::default()
    };
    exported.reason = match lacks {
        Some(lacks) => Some(lacks.to_owned()),
        None => complete::missing_ranks(trace, comm),
    };
    if exported.reason.is_some() {
        return Ok(exported);
    }
    let (ranks, left_out) = complete::read(trace, comm).context("cannot read the events of a rank")?;
    exported.collectives = ranks.first().map_or(0, |rank| rank.collectives.len());
    exported.messages = ranks.iter().map(|rank| rank.sends.len()).sum();
    exported.collectives_left_out = left_out.iter().map(|it| it.collectives).sum();
    exported.messages_left_out = left_out.iter().map(|it| it.messages).sum();
    exported.left_out = left_out;
    if exported.collectives + exported.messages == 0 {
        exported.reason = Some("nothing that all ranks have".to_owned());
        return Ok(exported);
    }
    let directory = format!("{number}-{}", file_name(&exported.name));
    let places = members.iter().zip(&exported.processes).map(|(location, process)| {
        let host = trace.host(trace.group(*location));
        (host.and_then(|host| trace.node_name(host)).unwrap_or("host"), process.as_str())
    });
    let folder = staging.path().join(&directory);
    let communicator = Communicator {
        name: &exported.name,
        machine: machine(trace).unwrap_or("machine"),
        places: places.collect(),
        ranks: &ranks,
        ticks_per_second: trace.definitions.clock.map_or(1_000_000_000, |clock| clock.timer_resolution),
    };
    std::fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let written = communicator.write(&folder)?;
    exported.events_moved = written.moved;
    let most_ns = u128::from(written.most_moved) * 1_000_000_000 / u128::from(communicator.ticks_per_second.max(1));
    exported.moved_ns = u64::try_from(most_ns).unwrap_or(u64::MAX);
    exported.archive = Some(out.join(directory).join(ANCHOR).display().to_string());
    Ok(exported)
}

fn machine(trace: &Trace) -> Option<&str> {
    trace.definitions.string(trace.definitions.system_tree_nodes.values().find(|node| !node.parent.is_defined())?.name)
}

fn file_name(name: &str) -> String {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => letter,
        _ => '_',
    };
    name.chars().take(64).map(plain).collect()
}

fn text(all: &[Exported]) -> Text {
    let columns: [ColumnOf<'_, &Exported>; 6] = [
        ("communicator", Side::Left, |it| it.name.clone()),
        ("ranks", Side::Right, |it| it.ranks.to_string()),
        ("collectives", Side::Right, |it| it.collectives.to_string()),
        ("messages", Side::Right, |it| it.messages.to_string()),
        ("left out", Side::Right, |it| (it.collectives_left_out + it.messages_left_out).to_string()),
        ("archive", Side::Left, |it| {
            let reason = it.reason.as_ref().map(|reason| format!("none: {reason}"));
            it.archive.clone().or(reason).unwrap_or_default()
        }),
    ];
    let mut text = Text::default();
    Table::of(all, &columns).print(&mut text);
    for (it, left_out) in all.iter().flat_map(|it| it.left_out.iter().map(move |left_out| (it, left_out))) {
        let collectives = plural(left_out.collectives, "collective", "collectives");
        let ends = plural(left_out.messages, "end of a message", "ends of messages");
        text.line(format_args!("{}: {collectives} and {ends} left out: {}", it.name, left_out.reason));
    }
    for it in all.iter().filter(|it| it.events_moved > 0) {
        let events = plural(it.events_moved, "event", "events");
        let most_ns = it.moved_ns;
        text.line(format_args!(
            "{}: {events} moved by up to {most_ns} ns, so that no two of a rank share a time",
            it.name
        ));
    }
    text.line("analyse one: mpirun -np RANKS scout.mpi ARCHIVE");
    text
}
