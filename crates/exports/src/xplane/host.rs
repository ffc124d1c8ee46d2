//! The profile of a host: its plane "Task Environment" states when it began and ended.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use analysis::Trace;
use otf2::SystemTreeNodeRef;
use proto_messages::Message as _;
use proto_messages::xspace::{
    PROFILE_START_TIME, PROFILE_STOP_TIME, TASK_ENVIRONMENT, XPlane, XSpace, XStat, XStatMetadata,
};

use crate::error::{Error, Result};

/// Start and end of a profile, in ns since 1970. Times of its planes are relative to the start.
pub(super) struct HostProfile {
    pub(super) begin_ns: u64,
    /// `u64::MAX` if the profile does not state it.
    pub(super) end_ns: u64,
    /// Names of its host: those in the profile, and the file's name.
    names: Vec<String>,
}

impl HostProfile {
    pub(super) const fn of(begin_ns: u64, end_ns: u64) -> Self {
        Self { begin_ns, end_ns, names: Vec::new() }
    }

    /// Reads a profile of at most `most_bytes`; its events are skipped.
    pub(super) fn read(path: &Path, most_bytes: u64) -> Result<Self> {
        let mut bytes = Vec::new();
        let file = regular_files::open_named(path, most_bytes);
        let read = file.and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(Error::io("read", path))?;
        let refused = |why: &str| Error::Refused(format!("{}: {why}", path.display()));
        let space = XSpace::decode(bytes.as_slice())
            .map_err(|error| refused(&format!("not an XSpace (NAME.xplane.pb): {error}")))?;
        let mut environments = space.planes.iter().filter(|plane| plane.name == TASK_ENVIRONMENT);
        let begin_ns = environments.clone().find_map(|plane| stat(plane, PROFILE_START_TIME)).ok_or_else(|| {
            refused(
                "no stat profile_start_time in a plane \"Task Environment\", so its clock cannot be related to the \
                 archive's; export without --into, to a second file in the profile's directory",
            )
        })?;
        let end_ns = environments.find_map(|plane| stat(plane, PROFILE_STOP_TIME)).unwrap_or(u64::MAX);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".xplane.pb").unwrap_or(&name).to_owned();
        Ok(Self { begin_ns, end_ns, names: space.hostnames.into_iter().chain([name]).collect() })
    }

    /// From its start to its end, or to the archive's end.
    pub(super) fn span_ns(&self, archive_end_ns: u64) -> [i128; 2] {
        let end_ns = if self.end_ns == u64::MAX { archive_end_ns.max(self.begin_ns) } else { self.end_ns };
        [self.begin_ns.into(), end_ns.into()]
    }

    /// The host it was taken on: the only host, or the one that it names.
    pub(super) fn host(
        &self,
        trace: &Trace,
        hosts: &BTreeSet<SystemTreeNodeRef>,
        path: &Path,
    ) -> Result<SystemTreeNodeRef> {
        let name_of = |host: SystemTreeNodeRef| trace.node_name(host).unwrap_or_default();
        let is_named = |host: &SystemTreeNodeRef| self.names.iter().any(|name| short(name) == short(name_of(*host)));
        let named: Vec<SystemTreeNodeRef> = hosts.iter().copied().filter(is_named).collect();
        let all: Vec<SystemTreeNodeRef> = hosts.iter().copied().collect();
        match (all.as_slice(), named.as_slice()) {
            ([only], _) | (_, [only]) => Ok(*only),
            _ => {
                const SHOWN: usize = 4;
                let mut names: Vec<&str> = all.iter().map(|host| name_of(*host)).take(SHOWN).collect();
                if all.len() > SHOWN {
                    names.push("…");
                }
                Err(Error::Refused(format!(
                    "{}: it does not say which of the archive's {} hosts ({}) it was taken on, and each has a clock of \
                     its own: call it HOST.xplane.pb, or choose ranks of one host with --rank",
                    path.display(),
                    all.len(),
                    names.join(", ")
                )))
            }
        }
    }

    /// A space with only the plane that states start and end.
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
        XSpace { planes: vec![plane], ..XSpace::default() }.encode_to_vec()
    }
}

/// The host name without its domain; an address unchanged.
fn short(name: &str) -> &str {
    match name.split_once('.') {
        Some((host, _)) if !host.starts_with(|first: char| first.is_ascii_digit()) => host,
        _ => name,
    }
}

fn stat(plane: &XPlane, name: &str) -> Option<u64> {
    let (id, _) = plane.stat_metadata.iter().find(|(_, metadata)| metadata.name == name)?;
    let stat = plane.stats.iter().find(|stat| stat.metadata_id == *id)?;
    stat.uint64_value.or_else(|| u64::try_from(stat.int64_value?).ok())
}
