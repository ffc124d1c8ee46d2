//! The first lines of verdicts, of at most [`MOST_CHARACTERS`], and the lines of evidence below them.

use crate::lateness::chance::Test;
use crate::lateness::late::LateRank;
use crate::links::slow::{STEADY, Shared, SlowLink};
use crate::read::Tables;
use crate::results::{Cause, CauseKind, Delay, LinkKey, Rank, Why};
use crate::statistics::network::key;
use crate::units;
use crate::units::{count, plural, real, time};
use nccl_events::archive::path_of_ranges;
use nccl_events::ids::index as large;

/// The longest line of a verdict.
pub(super) const MOST_CHARACTERS: usize = 110;

/// The most ranks that a line lists by name, and the most characters of their names together.
pub(super) const LISTED: usize = 4;
const MOST_OF_NAMES: usize = 40;

/// A share of the time of all ranks in operations.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// `Rank 3 is`, `Ranks 2, 5 and 7 are`, `8 ranks (4, 5, 6 …) are`, `All ranks of node2 are`.
pub(super) fn who<'a>(all: &[Rank], ranks: &[&Rank], (one, several): (&'a str, &'a str)) -> String {
    let number = |rank: &Rank| rank.number.map_or_else(|| rank.name.clone(), |number| number.to_string());
    let [first, rest @ ..] = ranks else { return String::new() };
    if rest.is_empty() {
        let name = units::capital(&first.name);
        let cut: String = name.chars().take(MOST_OF_NAMES - 1).collect();
        return format!("{} {one}", if name.chars().count() > MOST_OF_NAMES { cut + "…" } else { name });
    }
    let of_host = all.iter().filter(|rank| rank.host == first.host).count();
    let is_host = first.host.chars().count() <= MOST_OF_NAMES
        && ranks.iter().all(|rank| rank.host == first.host)
        && of_host == ranks.len()
        && of_host < all.len();
    if is_host {
        return format!("All ranks of {} {several}", first.host);
    }
    let names: Vec<String> = ranks.iter().map(|rank| number(rank)).collect();
    let fits = |names: &[String]| names.iter().map(|name| name.chars().count()).sum::<usize>() <= MOST_OF_NAMES;
    match names.split_last() {
        Some((last, before)) if names.len() <= LISTED && fits(&names) => {
            format!("Ranks {} and {last} {several}", before.join(", "))
        }
        _ if names.len() > LISTED && fits(&names[..3]) => {
            format!("{} ranks ({} …) {several}", names.len(), names[..3].join(", "))
        }
        _ => format!("{} ranks {several}", names.len()),
    }
}

/// Where a late rank loses the time, as far as that fits.
fn place(cause: &Cause, room: usize) -> String {
    let why = cause.why.as_ref();
    match why.and_then(|why| why.reason) {
        Some(Delay::Gpu) => ", behind other GPU work".to_owned(),
        Some(Delay::Launch) => ", between call and launch".to_owned(),
        Some(Delay::Call) | None => {
            let phase = why.and_then(|why| why.phase.as_ref()).or(cause.phase.as_ref());
            let Some(path) = phase.map(|phase| phase.path.as_slice()) else { return String::new() };
            // Outer parts go first.
            let texts = (0..path.len()).map(|from| {
                let outer = if from > 0 { "… > " } else { "" };
                format!(", in `{outer}{}`", path_of_ranges(&path[from..]))
            });
            texts.into_iter().find(|text| text.chars().count() <= room).unwrap_or_default()
        }
    }
}

/// The line of ranks that are late: who, how much, and where the one that costs most loses it.
pub(crate) fn late_line(all: &[Rank], causes: &[&Cause]) -> String {
    let mut ranks: Vec<&Rank> = Vec::new();
    for cause in causes {
        ranks.extend(cause.rank.and_then(|rank| all.get(large(rank)).or(all.first().filter(|_| all.len() == 1))));
    }
    nccl_events::sort::sort_by_key(&mut ranks, |rank| (rank.number, rank.name.clone()));
    let Some(worst) = causes.iter().max_by_key(|cause| cause.lost_ns) else { return String::new() };
    let share: f64 = causes.iter().filter_map(|cause| cause.share).sum();
    let span = worst.since_ns.zip(worst.until_ns).filter(|_| causes.len() == 1);
    let head = match span {
        Some((from_ns, to_ns)) => {
            format!("{} late from {} to {}", who(all, &ranks, ("was", "were")), time(from_ns), time(to_ns))
        }
        None => format!("{} late", who(all, &ranks, ("is", "are"))),
    };
    let line = format!("{head}: {} of communication time lost", percent(share));
    let room = MOST_CHARACTERS.saturating_sub(line.chars().count());
    format!("{line}{}", place(worst, room))
}

/// What delays a late rank, as a line of evidence. Its times are from when each was free.
pub(crate) fn reason_line(rank: &Rank, why: &Why) -> Option<String> {
    let later = time(why.later_ns?);
    let name = units::capital(&rank.name);
    Some(match why.reason? {
        Delay::Call => {
            let phase = why.phase.as_ref().map(|phase| format!(", delayed in `{}`", path_of_ranges(&phase.path)));
            format!("{name} calls NCCL {later} later than its peers{}.", phase.unwrap_or_default())
        }
        Delay::Launch => format!("{name} calls NCCL in time, but launches {later} later than its peers."),
        Delay::Gpu => {
            format!("{name} launches in time, but its GPU begins {later} later, behind other work.")
        }
    })
}

/// How much longer a late rank takes than its peers, and how often.
pub(super) fn late_evidence(rank: &Rank, late: &LateRank, windows: u64) -> String {
    let (times, longer_ns) = late.usually_longer();
    let how = match late.test {
        _ if times == windows => "always",
        Test::Steady => "nearly always",
        Test::Exchange => "repeatedly",
        Test::Turns => "in turn with another rank",
    };
    format!(
        "{} takes {} longer than its peers between operations, in {} of {} comparisons ({how}; chance: {}).",
        units::capital(&rank.name),
        time(units::whole(longer_ns)),
        count(times),
        count(windows),
        units::probability(late.p_value)
    )
}

/// How far a name reaches in a line.
fn cut(name: &str, most: usize) -> String {
    let short: String = name.chars().take(most - 1).collect();
    if name.chars().count() > most { short + "…" } else { name.to_owned() }
}

/// `The link from rank 3 to 4`.
fn ends_name(ranks: &[Rank], ends: &LinkKey) -> String {
    let name =
        |rank: Option<u32>| Some(ranks.get(large(rank?))?).map(|rank| (rank.number, cut(&rank.name, MOST_OF_NAME)));
    let (_, from) = name(ends.from).unwrap_or_default();
    let to = match name(ends.to) {
        Some((Some(number), _)) if from.starts_with("rank ") => number.to_string(),
        Some((_, name)) => name,
        None => format!("peer {}", ends.peer.unwrap_or_default()),
    };
    let channel = ends.channel.map(|channel| format!(" on channel {channel}")).unwrap_or_default();
    format!("The link from {from} to {to}{channel}")
}

/// How far a name of several in a line reaches.
const MOST_OF_NAME: usize = 20;

/// A slow link by name: `The link from rank 3 to 4`, `The network interface of node2`, `Channel 1`.
fn link_name(tables: &Tables, ranks: &[Rank], shared: &Shared) -> String {
    match shared {
        Shared::Rank(rank) => {
            let rank = ranks.get(large(*rank));
            let (name, host) = rank.map_or(("", ""), |rank| (rank.name.as_str(), rank.host.as_str()));
            // "rank 12 (node3)"; a longer name says itself where it is.
            let host = if host.is_empty() || name.len() > 12 {
                String::new()
            } else {
                format!(" ({})", cut(host, MOST_OF_NAME))
            };
            format!("The network interface of {}{host}", cut(name, MOST_OF_NAME))
        }
        Shared::Host(host) => format!("The network interface of {}", cut(host, 2 * MOST_OF_NAME)),
        Shared::Channel(_, channel) => format!("Channel {channel}"),
        Shared::Pair(pair) => ends_name(ranks, &key(tables, *pair)),
        Shared::Connection((pair, channel)) => {
            ends_name(ranks, &LinkKey { channel: Some(*channel), ..key(tables, *pair) })
        }
        Shared::Hosts(from, to) => {
            format!("The link from {} to {}", cut(from, MOST_OF_NAME), cut(to, MOST_OF_NAME))
        }
        Shared::Kind => "Links between groups of hosts".to_owned(),
    }
}

/// The line of a slow link: which, from when on, how much is lost, and how much slower it is.
pub(super) fn link_line(
    tables: &Tables,
    ranks: &[Rank],
    slow: &SlowLink,
    since_ns: Option<u64>,
    share: Option<f64>,
) -> String {
    let is_unsteady = slow.typical < STEADY;
    let since = since_ns.map(|at_ns| format!(" from {} on", time(at_ns))).unwrap_or_default();
    let state = if is_unsteady { "unsteady" } else { "slow" };
    let steps = if is_unsteady {
        format!("{} of its steps are slow", percent(real(slow.slow_steps) / real(slow.steps.max(1))))
    } else {
        format!("its steps take {:.1} times as long", slow.ratio)
    };
    let name = link_name(tables, ranks, &slow.shared);
    let lost = share.map(|share| format!("{} of communication time lost", percent(share)));
    let all: Vec<&str> = lost.iter().chain([&steps]).map(String::as_str).collect();
    let lines = [(since.as_str(), &all[..]), (&since, &all[..1]), ("", &all[..1])];
    let lines = lines.map(|(since, said)| format!("{name} is {state}{since}: {}", said.join(", ")));
    lines.into_iter().min_by_key(|line| line.chars().count().saturating_sub(MOST_CHARACTERS)).unwrap_or_default()
}

/// The line of what stopped a few collectives.
pub(super) fn stall_line(ranks: &[Rank], cause: &Cause) -> String {
    let collectives = plural(cause.instances, "collective", "collectives");
    let lost = match cause.share {
        Some(share) => format!("{} of communication time lost", percent(share)),
        None => format!("{} lost", time(cause.lost_ns)),
    };
    match (cause.kind, &cause.link) {
        (CauseKind::SlowConnection, Some(link)) => {
            let line = format!("{} stalled in {collectives}: {lost}", ends_name(ranks, link));
            if line.chars().count() <= MOST_CHARACTERS { line } else { line.replace(" of communication time", "") }
        }
        (CauseKind::WaitedForGpu, _) => format!("Proxies waited for GPUs in {collectives}: {lost}"),
        (CauseKind::WaitedForPeer, _) => format!("Proxies waited for receivers in {collectives}: {lost}"),
        _ => format!("Stalls in {collectives}: {lost}, the recording does not show why"),
    }
}

/// What a slow link was compared with.
pub(super) fn link_evidence(tables: &Tables, ranks: &[Rank], slow: &SlowLink, fit: Option<(f64, f64)>) -> String {
    let pairs = if slow.pairs > 1 { format!(" on {} pairs of ranks", count(slow.pairs)) } else { String::new() };
    let fit = fit.map(|(latency_ns, rate)| {
        format!("; a step takes {} and its bytes at {}", time(units::whole(latency_ns)), units::bandwidth(rate))
    });
    format!(
        "{}: {} network steps{pairs} take {:.1} times as long as on comparable links; {} are slow (chance: {}){}.",
        link_name(tables, ranks, &slow.shared),
        count(slow.steps),
        slow.ratio,
        percent(real(slow.slow_steps) / real(slow.steps.max(1))),
        units::probability(slow.chance),
        fit.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::CausePhase;

    /// Names, hosts, paths and numbers of any length.
    #[test]
    fn a_line_has_at_most_110_characters() {
        for count in [1_u32, 2, 4, 5, 300] {
            for (name, path) in
                [("rank", "load"), ("GPU 3 of a process with a long name (pid 123456)", "größe größe größe")]
            {
                let ranks: Vec<Rank> = (0..count + 1)
                    .map(|number| Rank {
                        name: format!("{name} {number}"),
                        number: (name == "rank").then_some(number + 99_990),
                        host: format!("gpu-node-{}", number / 4),
                        ..Rank::default()
                    })
                    .collect();
                for depth in [1, 2, 6] {
                    let phase = CausePhase { path: vec![path.to_owned(); depth], share: 0.9 };
                    let why = Why { reason: Some(Delay::Call), phase: Some(phase), ..Why::default() };
                    let cause = |rank: u32| Cause {
                        kind: CauseKind::LateRank,
                        rank: Some(rank),
                        why: Some(why.clone()),
                        since_ns: Some(12_345_678_901),
                        until_ns: Some(912_345_678_901),
                        share: Some(0.123_456),
                        lost_ns: 5,
                        ..Cause::default()
                    };
                    let causes: Vec<Cause> = (0..count).map(cause).collect();
                    let line = late_line(&ranks, &causes.iter().collect::<Vec<_>>());
                    assert!(line.chars().count() <= MOST_CHARACTERS, "{line}");
                    assert!(line.contains(" of communication time lost"), "{line}");
                }
            }
        }
    }

    #[test]
    fn lines_of_links_have_at_most_110_characters() {
        let tables = Tables::default();
        for (name, host) in [
            ("rank 99999", "gpu-node-25000"),
            ("GPU 3 of a process with a long name (pid 1)", "n.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p"),
        ] {
            let ranks = vec![Rank { name: name.to_owned(), host: host.to_owned(), ..Rank::default() }];
            let shared = [
                Shared::Rank(0),
                Shared::Host(host.to_owned()),
                Shared::Channel(0, 31),
                Shared::Hosts(host.to_owned(), host.to_owned()),
                Shared::Pair((0, 0, 1)),
                Shared::Connection(((0, 0, 1), 31)),
            ];
            for (shared, typical) in shared.into_iter().flat_map(|shared| [(shared.clone(), 1.0), (shared, 12.34)]) {
                let slow = SlowLink {
                    shared,
                    steps: 1000,
                    slow_steps: 123,
                    ratio: 12.34,
                    typical,
                    chance: 1e-9,
                    lost_ns: 1e9,
                    pairs: 2,
                };
                let link = LinkKey { from: Some(0), channel: Some(31), peer: Some(99_999), ..LinkKey::default() };
                for kind in [CauseKind::SlowConnection, CauseKind::WaitedForPeer, CauseKind::Unknown] {
                    let cause =
                        Cause { kind, link: Some(link), instances: 12_345, share: Some(0.1), ..Cause::default() };
                    let line = stall_line(&ranks, &cause);
                    assert!(line.chars().count() <= MOST_CHARACTERS, "{line}");
                }
                for (since_ns, share) in [(None, None), (None, Some(0.123)), (Some(123_456_789_012), Some(0.123))] {
                    let line = link_line(&tables, &ranks, &slow, since_ns, share);
                    assert!(line.chars().count() <= MOST_CHARACTERS, "{line}");
                    assert!(line.contains(if typical > 2.0 { " is slow" } else { " is unsteady" }), "{line}");
                }
            }
        }
    }
}
