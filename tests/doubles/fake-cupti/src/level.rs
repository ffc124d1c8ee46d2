//! The releases of CUPTI: what each exports, and how long its records are.

/// What `cuptiGetVersion` of a release says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(pub(crate) u32);

impl Level {
    /// CUDA 12.3: buffers per thread can be asked for.
    pub(crate) const PER_THREAD_ATTRIBUTE: Level = Level(21);
    /// CUDA 12.9: NULL may be given for a buffer.
    pub(crate) const NULL_BUFFER: Level = Level(27);
    /// CUDA 13.0: buffers per thread unless switched off.
    pub(crate) const PER_THREAD_DEFAULT: Level = Level(130_000);
    /// CUDA 13.2: the first functions of a subscriber's own.
    pub(crate) const V2_BEGUN: Level = Level(130_200);
    /// CUDA 13.3: the two families exclude each other.
    pub(crate) const V2_COMPLETE: Level = Level(130_300);
    /// CUDA 13.4: the attribute that takes a timestamp callback.
    pub(crate) const TIMESTAMP_ATTRIBUTE: Level = Level(130_400);

    /// A release that there is, or one to come.
    pub(crate) fn known(number: u32) -> Option<Level> {
        const KNOWN: [u32; 15] = [
            18, 20, 21, 22, 23, 24, 26, 27, 28, 130_001, 130_101, 130_202, 130_301, 130_401,
            130_500,
        ];
        (KNOWN.contains(&number) || number > 130_500).then_some(Level(number))
    }

    /// Length of a record of this kind in bytes; nothing for a kind that is never written.
    pub(crate) fn record_len(self, kind: u32) -> Option<usize> {
        let by_level = |steps: &[(u32, usize)]| {
            let reached = steps.iter().rev().find(|(since, _)| self.0 >= *since);
            reached.map(|(_, len)| *len)
        };
        match kind {
            kind::MEMCPY => by_level(&[(0, 88), (26, 96), (130_400, 112)]),
            kind::MEMSET => by_level(&[(0, 88), (130_400, 104)]),
            // Level 18 is also that of CUDA 11.8, whose kernel records are 200 bytes long: FAKECUPTI_KERNEL_LEN=200.
            kind::KERNEL | kind::CONCURRENT_KERNEL => by_level(&[
                (0, 208),
                (130_000, 216),
                (130_100, 224),
                (130_300, 232),
                (130_400, 248),
            ]),
            kind::DRIVER | kind::RUNTIME => Some(40),
            kind::MEMCPY_PEER => Some(96),
            kind::SYNCHRONIZATION => by_level(&[(0, 40), (26, 56)]),
            kind::EXTERNAL_CORRELATION => Some(24),
            kind::GRAPH_TRACE => by_level(&[(0, 48), (21, 56)]),
            _ => None,
        }
    }
}

/// `CUpti_ActivityKind`
pub(crate) mod kind {
    pub(crate) const MEMCPY: u32 = 1;
    pub(crate) const MEMSET: u32 = 2;
    pub(crate) const KERNEL: u32 = 3;
    pub(crate) const DRIVER: u32 = 4;
    pub(crate) const RUNTIME: u32 = 5;
    pub(crate) const CONCURRENT_KERNEL: u32 = 10;
    pub(crate) const MEMCPY_PEER: u32 = 22;
    pub(crate) const SYNCHRONIZATION: u32 = 38;
    pub(crate) const EXTERNAL_CORRELATION: u32 = 39;
    pub(crate) const GRAPH_TRACE: u32 = 51;
    /// The first that no release has.
    pub(crate) const COUNT: u32 = 64;
}

/// Functions that not every release exports: the name, the first level that has it, and the first that has it no more.
const NOT_EVERYWHERE: &[(&str, u32, u32)] = &[
    ("cuptiDeviceGetTimestamp", 0, 20),
    ("cuptiGetErrorMessage", 20, u32::MAX),
    ("cuptiGetGraphExecId", 21, u32::MAX),
    ("cuptiActivityEnableDriverApi", 23, u32::MAX),
    ("cuptiActivityEnableRuntimeApi", 23, u32::MAX),
    ("cuptiActivityEnableHWTrace", 26, u32::MAX),
    ("cuptiSubscribe_v2", 130_000, u32::MAX),
    ("cuptiActivityRegisterCallbacks_v2", 130_200, u32::MAX),
    ("cuptiActivityEnable_v2", 130_200, u32::MAX),
    ("cuptiActivityDisable_v2", 130_200, u32::MAX),
    ("cuptiActivityGetAttribute_v2", 130_200, u32::MAX),
    ("cuptiActivitySetAttribute_v2", 130_200, u32::MAX),
    ("cuptiActivityGetEnabledKinds", 130_200, u32::MAX),
    ("cuptiActivityGetStructSize", 130_200, u32::MAX),
    (
        "cuptiActivityPushExternalCorrelationId_v2",
        130_300,
        u32::MAX,
    ),
    (
        "cuptiActivityPopExternalCorrelationId_v2",
        130_300,
        u32::MAX,
    ),
    ("cuptiActivityGetNextRecord_v2", 130_300, u32::MAX),
    ("cuptiActivityGetNumDroppedRecords_v2", 130_300, u32::MAX),
    ("cuptiGetTimestamp_v2", 130_300, u32::MAX),
    ("cuptiActivityEnableDriverApi_v2", 130_300, u32::MAX),
    ("cuptiActivityEnableRuntimeApi_v2", 130_300, u32::MAX),
    ("cuptiIsTracingSessionRunning", 130_300, u32::MAX),
];

/// Whether a release exports this name.
pub(crate) fn exports(level: Level, name: &str) -> bool {
    let entry = NOT_EVERYWHERE.iter().find(|(own, ..)| *own == name);
    entry.is_none_or(|(_, since, until)| (*since..*until).contains(&level.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_record_grows_with_the_releases() {
        let lens = [
            18, 28, 130_001, 130_101, 130_202, 130_301, 130_401, 130_500, 140_000,
        ]
        .map(|level| Level(level).record_len(kind::CONCURRENT_KERNEL));
        let wanted = [208, 208, 216, 224, 224, 232, 248, 248, 248].map(Some);
        assert_eq!(lens, wanted);
        assert_eq!(Level(24).record_len(kind::MEMCPY), Some(88));
        assert_eq!(Level(130_301).record_len(kind::MEMCPY), Some(96));
        assert_eq!(Level(28).record_len(17), None);
    }

    #[test]
    fn a_function_comes_and_goes() {
        assert!(exports(Level(18), "cuptiGetVersion"));
        assert!(exports(Level(18), "cuptiDeviceGetTimestamp"));
        assert!(!exports(Level(20), "cuptiDeviceGetTimestamp"));
        assert!(!exports(Level(22), "cuptiActivityEnableDriverApi"));
        assert!(exports(Level(23), "cuptiActivityEnableDriverApi"));
        assert!(!exports(Level(130_202), "cuptiIsTracingSessionRunning"));
        assert!(exports(Level(130_301), "cuptiIsTracingSessionRunning"));
    }

    #[test]
    fn only_releases_that_exist_are_levels() {
        assert_eq!(Level::known(25), None);
        assert_eq!(Level::known(19), None);
        assert_eq!(Level::known(28), Some(Level(28)));
        assert_eq!(Level::known(140_200), Some(Level(140_200)));
    }
}
