//! A small archive of two hosts with aligned clocks, with all statements on clocks.

use super::fixture::{Fixture, StatedValue};

impl Fixture {
    /// The clock of rank 1 was 50 ns behind that of rank 0 and lost 20 µs per second; it is known to 10 ns.
    pub(crate) fn aligned() -> Self {
        let mut fixture = Self::sound();
        fixture.two_hosts = true;
        fixture.boots = [Some("boot of rank 0"), Some("boot of rank 1")];
        let same = vec![(100, 0), (456, 0)];
        fixture.offsets = [same.clone(), vec![(100, 0), (1_000_000_100, 20_000)], same];
        fixture.deviation = 10.0 / 3.0_f64.sqrt();
        let process = |relation, [correction_ns, drift_ppb]: [i64; 2], uncertainty_ns, anchors| {
            vec![
                ("NCCL::CLOCK::RELATION", StatedValue::Text(relation)),
                ("NCCL::CLOCK::CORRECTION_NS", StatedValue::Signed(correction_ns)),
                ("NCCL::CLOCK::DRIFT_PPB", StatedValue::Signed(drift_ppb)),
                ("NCCL::CLOCK::VIOLATIONS", StatedValue::Unsigned(0)),
                ("NCCL::CLOCK::WORST_VIOLATION_NS", StatedValue::Unsigned(0)),
                ("NCCL::CLOCK::UNCERTAINTY_NS", StatedValue::Unsigned(uncertainty_ns)),
                ("NCCL::CLOCK::ANCHORS", StatedValue::Text(anchors)),
            ]
        };
        // Anchors consist of ticks, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME.
        fixture.statements = [
            process("reference", [0, 0], 5, "7 90 90 90, 9 99 99 99"),
            process("bounded", [50, 20_000], 15, "7 90 90 40, 9 99 99 70"),
        ];
        for (name, value) in [
            ("NCCL::CLOCK::ALIGNMENT::HOSTS", "2"),
            ("NCCL::CLOCK::ALIGNMENT::CONSTRAINTS", "8"),
            ("NCCL::CLOCK::ALIGNMENT::VIOLATIONS", "0"),
            ("NCCL::CLOCK::ALIGNMENT::WORST_VIOLATION_NS", "0"),
            ("NCCL::CLOCK::ALIGNMENT::GROUPS", "1"),
            ("NCCL::CLOCK::ALIGNMENT::UNCORRECTED", "0"),
            ("NCCL::CLOCK::ALIGNMENT::UNCERTAINTY_NS", "15"),
        ] {
            fixture.property(name, value);
        }
        fixture
    }

    /// Changes what a process states about its clock.
    pub(crate) fn set_statement(&mut self, process: usize, name: &str, value: StatedValue) {
        self.statements[process].iter_mut().find(|(known, _)| *known == name).expect("it says that").1 = value;
    }
}
