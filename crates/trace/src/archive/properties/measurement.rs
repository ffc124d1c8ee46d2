//! Recording that was switched while the job ran: properties `NCCL::MEASUREMENT::…`.

use crate::archive::processes::Process;
use crate::part::manifest::StepRangeDefinition;
use nccl_events::control::Span;
use nccl_events::event_names;
use schema::Lines;

/// A line for each time. Nothing where nothing was switched.
pub(super) fn of_archive(processes: &[Process]) -> Lines {
    let mut lines = Vec::new();
    for process in processes {
        for switch in &process.manifest.switches {
            let at = process.archive_ns(switch.ns);
            let what = if switch.is_on { "on" } else { "off" };
            let by = match switch.steps {
                Some(StepRangeDefinition { first, last, rank }) => {
                    let range = Span { first, last };
                    match rank {
                        0.. => format!("steps {range} of rank {rank}"),
                        _ => format!("steps {range}"),
                    }
                }
                None if switch.by_signal => "a signal".to_owned(),
                None => "the control file".to_owned(),
            };
            let events = event_names(switch.events).join(",");
            lines.push((at, format!("{at}: {}: {what}, events {events}, by {by}", process.name())));
        }
    }
    lines.sort();
    Lines::of(lines.into_iter().map(|(_, line)| line))
}
