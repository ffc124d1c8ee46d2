//! The plane "Task Environment" of a profile, which says when the profile began and ended.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use analysis::Clock;
use proto_messages::Message as _;
use proto_messages::xspace::{
    PROFILE_START_TIME, PROFILE_STOP_TIME, TASK_ENVIRONMENT, XPlane, XSpace, XStat, XStatMetadata,
};

use crate::error::{Error, Result};
use crate::source::Source;

/// When a profile began and ended, in ns since 1970. Times of its planes are relative to its beginning.
pub(super) struct HostProfile {
    pub(super) begin_ns: u64,
    /// The largest number where the profile does not say.
    pub(super) end_ns: u64,
}

impl HostProfile {
    /// Reads a profile; its events are passed over.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(Error::io("read", path))?;
        let refused = |why: &str| Error::Refused(format!("{}: {why}", path.display()));
        let space = XSpace::decode(bytes.as_slice())
            .map_err(|error| refused(&format!("not an XSpace (NAME.xplane.pb): {error}")))?;
        let mut environments = space.planes.iter().filter(|plane| plane.name == TASK_ENVIRONMENT);
        let begin_ns = environments.clone().find_map(|plane| stat(plane, PROFILE_START_TIME));
        let begin_ns = begin_ns.ok_or_else(|| {
            refused(
                "no stat profile_start_time in a plane \"Task Environment\", so its clock cannot be related to the \
                 archive's; export without --into, to a second file in the profile's directory",
            )
        })?;
        let end_ns = environments.find_map(|plane| stat(plane, PROFILE_STOP_TIME)).unwrap_or(u64::MAX);
        Ok(Self { begin_ns, end_ns })
    }

    /// Refuses an archive of another time, or of which the time is not known.
    pub(super) fn refuse_unrelated(&self, source: &Source<'_>, path: &Path) -> Result<()> {
        let refused = |why: String| Err(Error::Refused(why));
        let clock = source.trace.definitions.clock.as_ref();
        if clock.is_none_or(|clock| clock.realtime_timestamp == u64::MAX) {
            return refused(format!(
                "the archive does not say when it began, so its clock cannot be related to that of {}",
                path.display()
            ));
        }
        let begin_ns = source.begin_ns();
        let end_ns = begin_ns.saturating_add(length_ns(source));
        let seconds = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) / 1_000_000_000;
        if end_ns < self.begin_ns {
            let gap = seconds(end_ns, self.begin_ns);
            return refused(format!("{} began {gap} s after the archive's last event", path.display()));
        }
        if begin_ns > self.end_ns {
            let gap = seconds(self.end_ns, begin_ns);
            return refused(format!("{} ended {gap} s before the archive's first event", path.display()));
        }
        Ok(())
    }

    /// A space with nothing but the plane that says so.
    pub(super) fn space(&self) -> Vec<u8> {
        let names = [(1, PROFILE_START_TIME, self.begin_ns), (2, PROFILE_STOP_TIME, self.end_ns)];
        let metadata = names.map(|(id, name, _)| (id, XStatMetadata { id, name: name.to_owned() }));
        let stats = names.map(|(metadata_id, _, time_ns)| XStat {
            metadata_id,
            uint64_value: Some(time_ns),
            ..XStat::default()
        });
        let plane = XPlane {
            name: TASK_ENVIRONMENT.to_owned(),
            stat_metadata: BTreeMap::from(metadata),
            stats: stats.to_vec(),
            ..XPlane::default()
        };
        XSpace { planes: vec![plane] }.encode_to_vec()
    }
}

/// How long the trace is.
pub(super) fn length_ns(source: &Source<'_>) -> u64 {
    let clock = Clock::of(source.trace);
    let definition = source.trace.definitions.clock.as_ref();
    definition.map_or(0, |it| clock.ns(it.global_offset.saturating_add(it.trace_length)))
}

fn stat(plane: &XPlane, name: &str) -> Option<u64> {
    let (id, _) = plane.stat_metadata.iter().find(|(_, metadata)| metadata.name == name)?;
    let stat = plane.stats.iter().find(|stat| stat.metadata_id == *id)?;
    stat.uint64_value.or_else(|| u64::try_from(stat.int64_value?).ok())
}
