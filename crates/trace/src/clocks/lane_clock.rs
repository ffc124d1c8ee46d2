//! What the archive says of the GPU clock behind a lane: properties of its location.

use otf2::records::Property;
use otf2::{AttributeValue, StringRef};

use crate::archive::union::Strings;
use crate::part::sidecar::{LaneKind, LaneOwner, Sidecar};

/// The properties of the location of a lane whose times can be a GPU's; none where it gave no stamps.
#[must_use]
pub(crate) fn properties(
    sidecar: &Sidecar,
    lane: &LaneKind,
    strings: &mut Strings,
) -> Vec<Property> {
    let (comm, rank) = match *lane {
        LaneKind::Communicator { comm, rank, .. }
        | LaneKind::Channel {
            owner: LaneOwner::Rank { comm, rank, .. },
            ..
        } => (comm, rank),
        _ => return Vec::new(),
    };
    let mut clocks = sidecar.gpu_clocks.iter();
    let of_rank = clocks.find(|definition| (definition.comm, definition.rank) == (comm, rank));
    let Some(clock) = of_rank.map(|definition| &definition.clock) else {
        return Vec::new();
    };
    let mut name = |name: &str| StringRef::new(strings.number(&format!("NCCL::GPU_CLOCK::{name}")));
    let calibration = name("CALIBRATION");
    let numbers = [
        (name("RESIDUAL_NS"), AttributeValue::U64(clock.residual_ns)),
        (name("DRIFT_PPB"), AttributeValue::I64(clock.drift_ppb())),
        (
            name("LINES"),
            AttributeValue::U64((clock.knots.len() as u64).saturating_sub(1)),
        ),
        (name("BOUNDS_BELOW"), AttributeValue::U64(clock.bounds.0)),
        (name("BOUNDS_ABOVE"), AttributeValue::U64(clock.bounds.1)),
    ];
    let kernels = (
        name("BOUNDS_OF_KERNELS"),
        AttributeValue::U64(clock.kernel_bounds),
    );
    let text = AttributeValue::String(StringRef::new(strings.number(clock.calibration.name())));
    let mut properties = vec![(calibration, text)];
    properties.extend(numbers);
    // Of archives without kernels nothing new is said.
    properties.extend((clock.kernel_bounds > 0).then_some(kernels));
    properties
}
