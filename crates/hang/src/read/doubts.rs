//! The archive's statements about missing data.

use analysis::Trace;
use analysis::units::plural;
use nccl_events::Kind;
use nccl_events::schema::Lack;

/// What NCCL does for operations in its proxy and network plugin, whose ends it may report late or never.
const BELOW: [Kind; 4] = [Kind::ProxyOp, Kind::ProxyStep, Kind::ProxyCtrl, Kind::NetPlugin];

/// The archive's statements about missing data.
pub(super) struct Doubts {
    /// The recorded kinds of events, as NCCL's mask.
    pub(super) event_mask: u32,
    pub(super) is_whole: bool,
    /// Whether only the end of a recording was kept.
    pub(super) is_flight: bool,
    pub(super) missing: Vec<String>,
    /// Operations that do not end or differ, one per line.
    pub(super) signs: Vec<String>,
    /// Network events that do not end, if nothing else does not.
    pub(super) open_below: Option<String>,
}

impl Doubts {
    pub(super) fn of(trace: &Trace) -> Self {
        let statements = &trace.statements;
        let is_missing = |lack| match lack {
            Lack::Callbacks(lost) => Some(format!("{} not recorded", plural(lost, "callback was", "callbacks were"))),
            Lack::Places(number) => {
                let first = statements.problems.lines.all.first().map(String::as_str).unwrap_or_default();
                let places = plural(number, "place", "places");
                Some(format!("{places} of the recordings could not be read, the first: {first}"))
            }
            Lack::Processes(number) => Some(format!("the archive lacks {}", plural(number, "process", "processes"))),
            Lack::WhileOff => Some("recording was switched, so the order of calls is not known".to_owned()),
            _ => None,
        };
        let mut missing: Vec<String> = statements.lacks().filter_map(is_missing).collect();
        missing.extend(statements.matching_unknown.lines.shown());
        let mut signs = statements.ranks_behind.lines.shown();
        let unfinished = statements.unfinished();
        let below = BELOW.map(|kind| statements.counts.kinds.get(kind).unfinished).iter().sum::<u64>();
        let open = || format!("{} had not ended when recording did", plural(unfinished, "event", "events"));
        let open_below = (unfinished > 0 && unfinished == below).then(open);
        if unfinished > below {
            signs.push(open());
        }
        Self {
            event_mask: event_mask(&statements.events.all),
            is_whole: !statements.has_gaps() && statements.measurement_list.is_empty(),
            is_flight: statements.flight_processes.get() > 0,
            missing,
            signs,
            open_below,
        }
    }
}

/// The mask of the kinds that the archive lists.
fn event_mask(lines: &[String]) -> u32 {
    let has = |kind: &Kind| lines.iter().any(|line| line.split([',', ' ']).any(|name| name == kind.name()));
    Kind::ALL.into_iter().filter(has).map(Kind::mask).fold(0, |mask, kind| mask | kind)
}
