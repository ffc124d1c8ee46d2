//! The attributes of what the network plugin did.

use otf2::AttributeValue;

use super::Details;
use crate::emit::attributes::Attribute;
use nccl_events::NetData;

impl Details<'_, '_> {
    /// What the plugin said when it began; as numbers, because their meaning is the plugin's.
    pub(super) fn net_plugin(&mut self, id: i64, data: NetData) -> otf2::Result<()> {
        let id = id.cast_unsigned();
        self.add(Attribute::PluginId, AttributeValue::U64(id))?;
        match data {
            NetData::Opaque => Ok(()),
            NetData::IbQueuePair { device, work_request, opcode, queue_pair, bytes } => {
                self.add(Attribute::NetDevice, AttributeValue::I32(device))?;
                self.add(Attribute::QueuePair, AttributeValue::I32(queue_pair))?;
                self.add(Attribute::Opcode, AttributeValue::I32(opcode))?;
                self.add(Attribute::WorkRequest, AttributeValue::U64(work_request))?;
                self.add(Attribute::Bytes, AttributeValue::U64(bytes))
            }
            NetData::Socket { descriptor, operation, bytes } => {
                self.add(Attribute::Socket, AttributeValue::I32(descriptor))?;
                self.add(Attribute::Opcode, AttributeValue::I32(operation))?;
                self.add(Attribute::Bytes, AttributeValue::U64(bytes))
            }
        }
    }
}
