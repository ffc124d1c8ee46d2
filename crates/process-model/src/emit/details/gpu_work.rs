//! Attributes of kernels and copies, of the launches that lead to them, and of the work of network plugins.

use super::Details;
use crate::links::gpu_work::{What, names};
use journal::format::Symbol;
use nccl_events::NetData;
use nccl_events::gpu::{Copy, Kernel, extent};
use nccl_events::schema::attribute;
use nccl_events::schema::attribute::Attribute;
use tables::{EventRow, NetPlugin};

impl Details<'_, '_> {
    pub(super) fn gpu_work(&mut self, at: u32) -> otf2::Result<()> {
        let Some(&work) = self.model.links.gpu.get(at) else {
            return Ok(());
        };
        self.some(attribute::Parent, work.parent)?;
        self.some(attribute::ExternalCorrelation, work.external)?;
        match work.what {
            What::Kernel(kernel) => self.kernel(&kernel),
            What::Copy(copy) => self.copy(&copy),
        }
    }

    /// The external correlation id that CUPTI reported with the work of a launch or copy-engine collective, if it did.
    pub(super) fn external(&mut self, launch: EventRow) -> otf2::Result<()> {
        let model = self.model;
        let joined = Some(launch).filter(|&launch| model.links.gpu.is_joined(launch));
        let id = joined.and_then(|launch| model.tables.head(launch)).map_or(0, |head| head.id);
        self.some(attribute::ExternalCorrelation, id)
    }

    fn word<A>(&mut self, attribute: A, text: &str) -> otf2::Result<()>
    where
        A: Attribute<Carrier = nccl_events::schema::Word>,
    {
        if text.is_empty() {
            return Ok(());
        }
        self.string(attribute, self.definitions.text(text))
    }

    fn kernel(&mut self, kernel: &Kernel<Symbol>) -> otf2::Result<()> {
        self.some(attribute::Correlation, kernel.correlation)?;
        self.word(attribute::Grid, &extent(kernel.grid))?;
        self.word(attribute::Block, &extent(kernel.block))?;
        self.some(attribute::Registers, kernel.registers_per_thread.into())?;
        self.some(attribute::StaticShared, kernel.static_shared_bytes)?;
        self.some(attribute::DynamicShared, kernel.dynamic_shared_bytes)?;
        self.some(attribute::Graph, kernel.graph)?;
        self.some(attribute::GraphNode, kernel.graph_node)?;
        self.some(attribute::SourceGraphNode, kernel.source_graph_node)
    }

    fn copy(&mut self, copy: &Copy) -> otf2::Result<()> {
        self.some(attribute::Correlation, copy.correlation)?;
        self.some(attribute::Bytes, copy.bytes)?;
        if copy.count > 1 {
            self.some(attribute::Copies, copy.count)?;
        }
        if copy.source_device != copy.device {
            self.add(attribute::SourceDevice, copy.source_device)?;
        }
        if copy.destination_device != copy.device {
            self.add(attribute::DestinationDevice, copy.destination_device)?;
        }
        self.word(attribute::SourceMemory, names::memory_kind(copy.source_kind))?;
        self.word(attribute::DestinationMemory, names::memory_kind(copy.destination_kind))?;
        self.some(attribute::GraphNode, copy.graph_node)
    }

    /// What the network plugin reported at the start, as numbers: only the plugin knows their meaning.
    pub(super) fn net_plugin(&mut self, fields: &NetPlugin) -> otf2::Result<()> {
        self.add(attribute::PluginId, fields.id.cast_unsigned())?;
        match fields.data {
            NetData::Opaque => Ok(()),
            NetData::IbQueuePair { device, work_request, opcode, queue_pair, bytes } => {
                self.add(attribute::NetDevice, device)?;
                self.add(attribute::QueuePair, queue_pair)?;
                self.add(attribute::Opcode, opcode)?;
                self.add(attribute::WorkRequest, work_request)?;
                self.add(attribute::Bytes, bytes)
            }
            NetData::Socket { descriptor, operation, bytes } => {
                self.add(attribute::Socket, descriptor)?;
                self.add(attribute::Opcode, operation)?;
                self.add(attribute::Bytes, bytes)
            }
        }
    }
}
