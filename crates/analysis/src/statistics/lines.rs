//! The first lines of verdicts, of at most [`MOST_COLUMNS`], and the lines of evidence below them.

use crate::lateness::chance::Test;
use crate::lateness::late::LateRank;
use crate::links::slow::{STEADY, Shared, SlowLink};
use crate::names::{MOST_COLUMNS, columns, shortened};
use crate::read::Tables;
use crate::results::{Cause, CauseKind, Delay, LinkKey, Rank, Why};
use crate::statistics::network::key;
use crate::units;
use crate::units::{count, plural, real, time};
use nccl_events::archive::path_of_ranges;
use nccl_events::ids::index as large;
use nccl_events::visible;

/// The most ranks that a line lists by name, and the most columns of their names together.
pub(super) const LISTED: usize = 4;
const MOST_OF_NAMES: usize = 36;

/// The fewest columns of a name that still says something.
const LEAST_OF_NAME: usize = 12;

/// A share of the time of all ranks in operations.
pub(super) fn percent(share: f64) -> String {
    match 100.0 * share {
        percent @ ..9.95 => format!("{percent:.1} %"),
        // What is left is not nothing.
        percent @ 99.5..100.0 => format!("{:.1} %", percent.min(99.9)),
        percent => format!("{percent:.0} %"),
    }
}

/// Parts of a whole as shares that do not add up to more than 100 %.
pub(super) fn percents(parts: &[u64]) -> Vec<String> {
    let all = parts.iter().sum::<u64>().max(1);
    let exact = |part: u64| real(part) / real(all);
    let is_fine = parts.iter().any(|part| *part > 0 && (exact(*part) < 0.0995 || exact(*part) > 0.995));
    let steps: u32 = if is_fine { 1000 } else { 100 };
    let mut shares: Vec<(u64, f64)> = parts
        .iter()
        .map(|part| {
            let share = exact(*part) * f64::from(steps);
            (units::whole(share.floor()), share.fract())
        })
        .collect();
    let left = u64::from(steps).saturating_sub(shares.iter().map(|(share, _)| share).sum());
    let mut order: Vec<usize> = (0..shares.len()).collect();
    // What is not nothing is not shown as 0.
    let need = |at: usize| if parts[at] > 0 && shares[at].0 == 0 { 1.0 } else { shares[at].1 };
    nccl_events::sort::sort_by(&mut order, |a, b| need(*b).total_cmp(&need(*a)));
    order.into_iter().take(usize::try_from(left).unwrap_or(0)).for_each(|at| shares[at].0 += 1);
    let text = |share: u64| if is_fine { format!("{}.{} %", share / 10, share % 10) } else { format!("{share} %") };
    shares.into_iter().map(|(share, _)| text(share)).collect()
}

/// `Rank 3 is`, `Ranks 2, 5 and 7 are`, `8 ranks (4, 5, 6 …) are`, `All ranks of node2 are`.
pub(super) fn who<'a>(all: &[Rank], ranks: &[&Rank], (one, several): (&'a str, &'a str)) -> String {
    let number = |rank: &Rank| rank.number.map_or_else(|| rank.name.clone(), |number| number.to_string());
    let [first, rest @ ..] = ranks else { return String::new() };
    if rest.is_empty() {
        let name = units::capital(&first.name);
        return format!("{} {one}", shortened(&name, MOST_OF_NAMES));
    }
    let of_host = all.iter().filter(|rank| rank.host == first.host).count();
    let is_host = columns(&first.host) <= MOST_OF_NAMES
        && ranks.iter().all(|rank| rank.host == first.host)
        && of_host == ranks.len()
        && of_host < all.len();
    if is_host {
        return format!("All ranks of {} {several}", visible(&first.host));
    }
    let names: Vec<String> = ranks.iter().map(|rank| number(rank)).collect();
    let fits = |names: &[String]| names.iter().map(|name| columns(name)).sum::<usize>() <= MOST_OF_NAMES;
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
            let fits = texts.into_iter().find(|text| columns(text) <= room);
            let cut = || {
                let (outer, innermost) = (if path.len() > 1 { "… > " } else { "" }, path.last()?);
                let most =
                    room.checked_sub(columns(", in ``") + columns(outer)).filter(|most| *most >= LEAST_OF_NAME)?;
                Some(format!(", in `{outer}{}`", shortened(innermost, most)))
            };
            fits.or_else(cut).unwrap_or_default()
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
    let room = MOST_COLUMNS.saturating_sub(columns(&line));
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
pub(super) fn late_evidence(rank: &Rank, late: &LateRank, windows: u64, block_ns: Option<u64>) -> String {
    let (times, longer_ns) = late.usually_longer();
    let how = match late.test {
        _ if times == windows => "always",
        Test::Turns => "in turn with another rank",
        _ if 5 * times >= 4 * windows => "nearly always",
        Test::Steady | Test::Exchange => "repeatedly",
    };
    let of = block_ns.map_or_else(|| "comparisons".to_owned(), |ns| format!("blocks of about {}", time(ns)));
    format!(
        "{} takes {} longer than its peers between operations, in {} of {} {of} ({how}; chance: {}).",
        units::capital(&rank.name),
        time(units::whole(longer_ns)),
        count(times),
        count(windows),
        units::probability(late.p_value)
    )
}

/// `The link from rank 3 to 4`.
fn ends_name(ranks: &[Rank], ends: &LinkKey) -> String {
    let name = |rank: Option<u32>| {
        Some(ranks.get(large(rank?))?).map(|rank| (rank.number, shortened(&rank.name, MOST_OF_NAME)))
    };
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
            let host = if host.is_empty() || columns(name) > 12 {
                String::new()
            } else {
                format!(" ({})", shortened(host, MOST_OF_NAME))
            };
            format!("The network interface of {}{host}", shortened(name, MOST_OF_NAME))
        }
        Shared::Host(host) => format!("The network interface of {}", shortened(host, 2 * MOST_OF_NAME)),
        Shared::Channel(_, channel) => format!("Channel {channel}"),
        Shared::Pair(pair) => ends_name(ranks, &key(tables, *pair)),
        Shared::Connection((pair, channel)) => {
            ends_name(ranks, &LinkKey { channel: Some(*channel), ..key(tables, *pair) })
        }
        Shared::Hosts(from, to) => {
            format!("The link from {} to {}", shortened(from, MOST_OF_NAME), shortened(to, MOST_OF_NAME))
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
    lines.into_iter().min_by_key(|line| columns(line).saturating_sub(MOST_COLUMNS)).unwrap_or_default()
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
            if columns(&line) <= MOST_COLUMNS { line } else { line.replace(" of communication time", "") }
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
                    assert!(columns(&line) <= MOST_COLUMNS, "{line}");
                    assert!(line.contains(" of communication time lost"), "{line}");
                }
            }
        }
    }

    /// Names that a terminal would execute, or shows wider than they are long.
    #[test]
    fn a_line_names_the_range_as_far_as_it_fits() {
        let rank = Rank { name: "rank 2".to_owned(), number: Some(2), ..Rank::default() };
        for (name, cut) in [("\u{1b}", r"… > \u{1b}\u{1b}"), ("歩", "… > 歩歩"), ("x", "… > xx")] {
            let phase = CausePhase { path: vec!["step".to_owned(), name.repeat(80)], share: 0.9 };
            let cause = Cause { rank: Some(0), phase: Some(phase), share: Some(0.85), ..Cause::default() };
            let line = late_line(std::slice::from_ref(&rank), &[&cause]);
            assert!((105..=MOST_COLUMNS).contains(&columns(&line)), "{line}");
            assert!(line.contains(&format!(" lost, in `{cut}")) && line.ends_with('`'), "{line}");
        }
    }

    #[test]
    fn shares_that_are_printed_together_are_not_more_than_the_whole() {
        assert_eq!(percents(&[88, 12, 0]), ["88 %", "12 %", "0 %"]);
        assert_eq!(percents(&[9_996, 4]), ["99.9 %", "0.1 %"]);
        assert_eq!(percents(&[926, 74]), ["92.6 %", "7.4 %"]);
        assert_eq!(percents(&[335, 335, 330]), ["34 %", "33 %", "33 %"]);
        assert_eq!([percent(0.9996), percent(1.0), percent(0.994)], ["99.9 %", "100 %", "99 %"]);
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
                    assert!(columns(&line) <= MOST_COLUMNS, "{line}");
                }
                for (since_ns, share) in [(None, None), (None, Some(0.123)), (Some(123_456_789_012), Some(0.123))] {
                    let line = link_line(&tables, &ranks, &slow, since_ns, share);
                    assert!(columns(&line) <= MOST_COLUMNS, "{line}");
                    assert!(line.contains(if typical > 2.0 { " is slow" } else { " is unsteady" }), "{line}");
                }
            }
        }
    }
}
