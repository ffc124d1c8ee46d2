//! One lane's happenings as OTF2 events.

use nccl_events::event;
use otf2::{
    Attributes, CommRef, EventWriter, MeasurementMode, MetricValue, RegionRef, RmaAccess, RmaWinRef,
};

use crate::emit::definitions::Tables;
use crate::emit::details::{Details, Timings};
use crate::links::collective;
use crate::links::interval::Timing;
use crate::tables::assembly::Operation;
use crate::tables::near::{AHEAD, bring_near};
use crate::timeline::by_told::ByTold;
use crate::timeline::canvas::Scene;
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::kinds::steps;
use crate::timeline::lanes::{Happening, Item, What};
use crate::timeline::messages::{Message, Role};
use crate::timeline::metrics::reference;
use journal::format::record::Symbol;
use nccl_events::Body;
use nccl_events::Kind;

/// Writes lanes.
#[derive(Debug)]
pub struct Emitter<'a> {
    scene: &'a Scene<'a>,
    tables: &'a Tables,
    timings: Timings,
    /// The regions that are entered on the lane.
    entered: Vec<RegionRef>,
    /// The regions of figures whose operations tell them.
    told: ByTold<RegionRef>,
    /// By shape: the region, where that is enough to tell it.
    fixed: [Option<RegionRef>; SHAPES],
}

/// Room for all shapes: [`Figure::order`] has five bits for them.
const SHAPES: usize = 32;

impl<'a> Emitter<'a> {
    /// Writes with these tables.
    #[must_use]
    pub fn new(scene: &'a Scene<'a>, tables: &'a Tables) -> Self {
        Self {
            scene,
            tables,
            timings: Timing::ALL.map(|timing| tables.text(timing.name())),
            entered: Vec::new(),
            told: ByTold::default(),
            fixed: [None; SHAPES],
        }
    }

    /// Writes events of a lane that follow each other, and notes them.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_all(
        &mut self,
        writer: &mut EventWriter<'_>,
        happenings: impl Iterator<Item = Happening>,
        written: &mut Written,
    ) -> otf2::Result<()> {
        for happening in happenings {
            self.write(writer, &happening)?;
            written.note(&happening);
        }
        Ok(())
    }

    /// Goes through what is drawn on a lane; what its operations say is near by then.
    pub fn visit<'i>(&self, items: &'i [Item]) -> impl Iterator<Item = &'i Item> + use<'a, 'i> {
        let scene = self.scene;
        items.iter().enumerate().map(move |(at, item)| {
            let ahead = |steps: usize| behind(scene, items.get(at + steps)?.figure);
            if let Some(Figure {
                operation: activity,
                shape: Shape::Operation,
                ..
            }) = items.get(at + 2 * AHEAD).map(|item| item.figure)
                && let Some(activity) = scene.activity(activity)
            {
                bring_near(activity);
            }
            if let Some(operation) = ahead(AHEAD) {
                bring_near(operation);
            }
            if let Some(operation) = ahead(AHEAD / 2) {
                operation.fields.bring_near(&scene.assembly.larger);
                // What a step sends depends on its transfer.
                let parent = operation.parent_at();
                if let Some(parent) = parent.and_then(|at| scene.assembly.operation(at))
                    && operation.kind() == Kind::ProxyStep
                {
                    bring_near(parent);
                }
            }
            item
        })
    }

    fn write(&mut self, writer: &mut EventWriter<'_>, happening: &Happening) -> otf2::Result<()> {
        match happening.what {
            What::Enter(figure) => {
                let region = self.region(figure);
                self.entered.push(region);
                self.details(writer).enter(figure)?;
                writer.enter(happening.time, region, Attributes::NONE)?;
                self.put(writer, happening.time, figure)
            }
            What::Leave(figure) => {
                self.put_completes(writer, happening.time, figure)?;
                // Lanes nest: it is the last one that was entered.
                let entered = self.entered.pop();
                let region = entered.unwrap_or_else(|| self.region(figure));
                self.details(writer).leave(figure)?;
                writer.leave(happening.time, region, Attributes::NONE)
            }
            What::Message(message) => self.message(writer, happening.time, message),
            What::Sample(metric, value) => {
                let metric = reference(self.scene.options.metrics, metric);
                let values = [MetricValue::U64(value)];
                writer.metric(happening.time, metric, &values, Attributes::NONE)
            }
            What::Measurement(is_on) => {
                let mode = if is_on {
                    MeasurementMode::On
                } else {
                    MeasurementMode::Off
                };
                writer.measurement_on_off(happening.time, mode, Attributes::NONE)
            }
        }
    }

    fn details<'e>(&'e self, writer: &'e mut EventWriter<'_>) -> Details<'a, 'e> {
        Details {
            scene: self.scene,
            tables: self.tables,
            timings: &self.timings,
            attributes: writer.next_attributes(),
        }
    }

    fn region(&mut self, figure: Figure) -> RegionRef {
        if !figure.has_fixed_region() {
            return self.told_region(figure);
        }
        let known = self.fixed.get(figure.shape as usize).copied().flatten();
        known.unwrap_or_else(|| {
            let region = find_region(self.scene, self.tables, figure);
            if let Some(fixed) = self.fixed.get_mut(figure.shape as usize) {
                *fixed = Some(region);
            }
            region
        })
    }

    /// The region of a figure that is told by what it is of.
    fn told_region(&mut self, figure: Figure) -> RegionRef {
        let Some(told) = figure.told(self.scene.assembly, self.scene.correlation) else {
            return find_region(self.scene, self.tables, figure);
        };
        let (scene, tables) = (self.scene, self.tables);
        self.told
            .get_or(told, || find_region(scene, tables, figure))
    }
}

/// What was written of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// How many things happened.
    pub happenings: usize,
    /// How many of them complete a collective on this rank.
    pub collectives: u64,
    /// When the first and the last of them did.
    pub span_ns: Option<(u64, u64)>,
}

impl Written {
    #[inline]
    fn note(&mut self, happening: &Happening) {
        self.happenings += 1;
        self.collectives += u64::from(happening.ends_collective());
        let (first, _) = self.span_ns.unwrap_or((happening.time, happening.time));
        self.span_ns = Some((first, happening.time));
    }
}

/// The operation behind a figure.
fn behind<'a>(scene: &Scene<'a>, figure: Figure) -> Option<&'a Operation> {
    let at = match figure.shape {
        Shape::Operation => scene.activity(figure.operation)?.operation,
        _ => figure.operation,
    };
    scene.assembly.operation(at)
}

fn find_region(scene: &Scene<'_>, tables: &Tables, figure: Figure) -> RegionRef {
    let fields = figure.fields(scene.assembly, scene.correlation);
    tables.region(figure.region(fields.as_ref(), scene.correlation))
}

impl Emitter<'_> {
    /// A step that begins to send puts data into its peer's memory.
    fn put(&self, writer: &mut EventWriter<'_>, time: u64, figure: Figure) -> otf2::Result<()> {
        let put =
            (figure.shape == Shape::SendWait).then(|| steps::put(self.scene, figure.operation));
        let Some(Some(put)) = put else {
            return Ok(());
        };
        let access = RmaAccess {
            win: RmaWinRef::new(put.comm),
            remote: put.peer,
            bytes: put.bytes,
            matching: u64::from(figure.operation),
        };
        writer.rma_put(time, &access, Attributes::NONE)
    }

    /// It is in the last phase of the step that the data is all sent.
    fn put_completes(
        &self,
        writer: &mut EventWriter<'_>,
        time: u64,
        figure: Figure,
    ) -> otf2::Result<()> {
        if !figure.is_step() || !figure.is_last {
            return Ok(());
        }
        let put = steps::put(self.scene, figure.operation);
        let Some(put) = put.filter(|put| put.completes) else {
            return Ok(());
        };
        let (win, matching) = (RmaWinRef::new(put.comm), u64::from(figure.operation));
        writer.rma_op_complete_non_blocking(time, win, matching, Attributes::NONE)
    }

    fn message(
        &self,
        writer: &mut EventWriter<'_>,
        time: u64,
        message: Message,
    ) -> otf2::Result<()> {
        let scene = self.scene;
        let request = u64::from(message.activity);
        let activity = scene.activity(message.activity);
        let operation = activity.and_then(|a| scene.assembly.operation(a.operation));
        let (Some(operation), Some(party)) = (operation, scene.party(message.activity)) else {
            return Ok(());
        };
        let sized = |count: u64, datatype: Symbol| {
            count.saturating_mul(scene.words.element_bytes(datatype))
        };
        let none = Attributes::NONE;
        match (message.role, &scene.assembly.fields_of(operation)) {
            (Role::CollectiveBegin, _) => writer.mpi_collective_begin(time, none),
            (Role::CollectiveRequest, _) => {
                writer.non_blocking_collective_request(time, request, none)
            }
            (role @ (Role::CollectiveEnd | Role::CollectiveComplete), fields) => {
                let (shape, count, datatype, root) = match *fields {
                    Body::Coll(event::Coll {
                        func,
                        count,
                        datatype,
                        root,
                        ..
                    })
                    | Body::CeColl(event::CeColl {
                        func,
                        count,
                        datatype,
                        root,
                        ..
                    }) => (scene.words.shape(func), count, datatype, root),
                    _ => {
                        let composites = &scene.correlation.composites;
                        let Some((_, call)) = composites.of_member(message.activity) else {
                            return Ok(());
                        };
                        let shape = collective::shape(call.pattern.func());
                        (shape, call.count, call.datatype, call.rank)
                    }
                };
                let Some(shape) = shape else {
                    return Ok(());
                };
                let root = u32::try_from(root).ok().filter(|_| shape.has_root());
                let is_root = root == Some(party.rank);
                let bytes = sized(count, datatype);
                let (bytes_sent, bytes_received) =
                    shape.bytes(bytes, party.ranks_in_bytes(), is_root);
                let collective = otf2::Collective {
                    op: shape.op,
                    comm: CommRef::new(party.comm),
                    root,
                    bytes_sent,
                    bytes_received,
                };
                if role == Role::CollectiveComplete {
                    return writer.non_blocking_collective_complete(
                        time,
                        &collective,
                        request,
                        none,
                    );
                }
                writer.mpi_collective_end(time, &collective, none)
            }
            (
                role,
                &Body::P2p(event::P2p {
                    peer,
                    count,
                    datatype,
                    ..
                }),
            ) => {
                let message = otf2::Message {
                    peer: u32::try_from(peer).unwrap_or(u32::MAX),
                    comm: CommRef::new(party.comm),
                    tag: 0,
                    bytes: sized(count, datatype),
                };
                match role {
                    Role::SendBegin => writer.mpi_isend(time, &message, request, none),
                    Role::SendEnd => writer.mpi_isend_complete(time, request, none),
                    Role::ReceiveBegin => writer.mpi_irecv_request(time, request, none),
                    Role::ReceiveEnd => writer.mpi_irecv(time, &message, request, none),
                    Role::CollectiveBegin
                    | Role::CollectiveEnd
                    | Role::CollectiveRequest
                    | Role::CollectiveComplete => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}
