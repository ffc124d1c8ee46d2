//! The tick source: one cheap, monotonic counter, the same for all threads of a host. x86-64 reads the TSC if the
//! processor reports it as invariant (CPUID 8000_0007h EDX bit 8) *and* the kernel itself uses it; aarch64 reads
//! CNTVCT, which is always invariant. Every other host uses `clock_gettime(CLOCK_MONOTONIC)`, which costs about 25 ns
//! more. Ticks have no meaning without calibration pairs: readings of the tick source together with the system's clocks
//! ([`ClockPair`], recorded by the maintenance thread).

use std::sync::atomic::{AtomicU8, Ordering};

/// Where ticks come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TickSource {
    /// `clock_gettime(CLOCK_MONOTONIC)`, nanoseconds.
    #[default]
    Monotonic = 1,
    /// The x86-64 time stamp counter.
    Tsc = 2,
    /// The aarch64 virtual counter.
    Cntvct = 3,
}

impl TickSource {
    /// The source with this number in a journal. An unknown number means [`Self::Monotonic`].
    pub const fn from_number(number: u32) -> Self {
        match number {
            2 => Self::Tsc,
            3 => Self::Cntvct,
            _ => Self::Monotonic,
        }
    }

    /// The name used in archives.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::Tsc => "TSC",
            Self::Cntvct => "CNTVCT",
        }
    }
}

/// A [`TickSource`] number, or 0 until [`select`] has run.
#[unsafe(link_section = ".data.hot")]
static SOURCE: AtomicU8 = AtomicU8::new(0);

/// Chooses the tick source of this process. Later calls return the same source.
pub fn select() -> TickSource {
    match SOURCE.load(Ordering::Relaxed) {
        0 => {
            let source = best_source();
            SOURCE.store(source as u8, Ordering::Relaxed);
            source
        }
        number => TickSource::from_number(u32::from(number)),
    }
}

#[cfg(target_arch = "x86_64")]
fn best_source() -> TickSource {
    use std::arch::x86_64::__cpuid;
    let invariant = __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
    // The kernel checks the TSC against other clocks and abandons it when the sockets disagree; so does this plugin.
    let kernel = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let trusted = match kernel {
        // Under KVM and Hyper-V the guest uses kvm-clock or the Hyper-V page, both of which are the scaled TSC.
        Ok(name) => matches!(name.trim(), "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page"),
        Err(_) => true,
    };
    if invariant && trusted { TickSource::Tsc } else { TickSource::Monotonic }
}

#[cfg(target_arch = "aarch64")]
fn best_source() -> TickSource {
    TickSource::Cntvct
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn best_source() -> TickSource {
    TickSource::Monotonic
}

/// Reads the tick source. Before [`select`] has run, reads `CLOCK_MONOTONIC`.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if SOURCE.load(Ordering::Relaxed) == TickSource::Tsc as u8 {
        // SAFETY: RDTSC has no preconditions in user mode; `best_source` found an invariant TSC.
        return unsafe { std::arch::x86_64::_rdtsc() };
    }
    #[cfg(target_arch = "aarch64")]
    if SOURCE.load(Ordering::Relaxed) == TickSource::Cntvct as u8 {
        return cntvct();
    }
    monotonic_ns()
}

/// The processor's counter, even if it is not this process's tick source: another tool may use it.
pub fn processor_counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC has no preconditions in user mode.
        Some(unsafe { std::arch::x86_64::_rdtsc() })
    }
    #[cfg(target_arch = "aarch64")]
    {
        Some(cntvct())
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    None
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn cntvct() -> u64 {
    let value: u64;
    // SAFETY: Linux lets user mode read CNTVCT_EL0 (CNTKCTL_EL1.EL0VCTEN); the read changes nothing.
    unsafe {
        std::arch::asm!("mrs {value}, cntvct_el0", value = out(reg) value, options(nomem, nostack, preserves_flags));
    }
    value
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec for the call; an unknown clock leaves it zero.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// CLOCK_MONOTONIC in nanoseconds. All processes see the same value since the host's boot.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// The values of the system's clocks at one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "clocks by the system's names")]
pub struct ClockPair {
    /// The tick halfway through the reading of CLOCK_MONOTONIC.
    pub ticks: u64,
    pub monotonic_ns: u64,
    pub realtime_ns: u64,
    pub monotonic_raw_ns: u64,
    /// Duration of the reading of CLOCK_MONOTONIC. The pair is accurate to half of this.
    pub uncertainty_ticks: u64,
}

impl ClockPair {
    /// Reads all clocks eight times and keeps the reading with the shortest duration: a thread that is descheduled
    /// between two clocks shifts one of them.
    pub fn read() -> Self {
        let (mut best, mut shortest) = Self::read_once();
        for _ in 0..7 {
            let (next, duration) = Self::read_once();
            if duration < shortest {
                (best, shortest) = (next, duration);
            }
        }
        best
    }

    /// The values, and how many ticks the reading of all clocks took.
    fn read_once() -> (Self, u64) {
        let before = ticks();
        let monotonic_ns = monotonic_ns();
        let after = ticks();
        let realtime_ns = clock_ns(libc::CLOCK_REALTIME);
        let later_ns = self::monotonic_ns();
        let monotonic_raw_ns = clock_ns(libc::CLOCK_MONOTONIC_RAW);
        // The three clocks are read one after the other: shift each value to the instant of the first reading.
        let between_ns = later_ns.saturating_sub(monotonic_ns);
        let pair = Self {
            ticks: before + after.saturating_sub(before) / 2,
            monotonic_ns,
            realtime_ns: realtime_ns.saturating_sub(between_ns / 2),
            monotonic_raw_ns: monotonic_raw_ns.saturating_sub(between_ns),
            uncertainty_ticks: after.saturating_sub(before),
        };
        (pair, ticks().saturating_sub(before))
    }
}
