//! How long the kernel's watchdog lets a task wait before it ejects the scheduler in charge: `timeout_ms` of its `sched_ext_ops`.
//!
//! Problem: each scheduler states its own, from 5 to 30 s, and none of the kernel's messages tells it.
//!
//! Rule: a scheduler's operations are a BPF map; its value is what the scheduler gave to the kernel. It is copied while the scheduler is in
//! charge, for it is gone with it; where in it the figure stands is in the kernel's type information, which takes a while to read, and is
//! read only when somebody asks.

use anyhow::{Context, Result};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, MapType,
    btf::{
        Btf, TypeId,
        types::{MemberAttr, Struct},
    },
    query::MapInfoIter,
};

use crate::events::u32_at;

/// What the kernel does where a scheduler states nothing (`SCX_WATCHDOG_MAX_TIMEOUT`).
const DEFAULT_MS: u32 = 30_000;
/// What the value of such a map is, in the kernel's types; within it, `data` is what the scheduler gave.
const VALUE: &str = "bpf_struct_ops_sched_ext_ops";
const OPS: &str = "sched_ext_ops";

/// The operations of a scheduler, as it gave them to the kernel.
pub struct Operations {
    value: Vec<u8>,
    value_type: u32,
}

impl Operations {
    /// Copies those of the newest map of operations: the scheduler that has just been attached.
    pub fn newest() -> Result<Self> {
        let maps = MapInfoIter::default().filter(|map| map.ty == MapType::StructOps);
        let map = maps.max_by_key(|map| map.id).context("the kernel holds no operations of a scheduler")?;
        let handle = MapHandle::from_map_id(map.id).context("open a scheduler's operations")?;
        let value = handle.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).context("read a scheduler's operations")?;
        let value = value.context("a scheduler's operations are empty")?;
        Ok(Self { value, value_type: map.btf_vmlinux_value_type_id })
    }

    /// How long a task may wait, ms.
    pub fn watchdog_ms(&self) -> Result<u32> {
        let types = Btf::from_vmlinux().context("read the kernel's types")?;
        let value: Struct<'_> = types.type_by_id(TypeId::from(self.value_type)).context("operations have no type")?;
        let data = offset_of(&value, "data").with_context(|| format!("{VALUE} has no data"))?;
        let ops: Struct<'_> = types.type_by_name(OPS).with_context(|| format!("the kernel has no {OPS}"))?;
        let timeout = offset_of(&ops, "timeout_ms").with_context(|| format!("{OPS} has no timeout_ms"))?;
        let stated = u32_at(&self.value, data + timeout).with_context(|| format!("{OPS} is cut off"))?;
        Ok(if stated == 0 { DEFAULT_MS } else { stated })
    }
}

/// Where a member of a structure is, in bytes.
fn offset_of(of: &Struct<'_>, name: &str) -> Option<usize> {
    let member = of.iter().find(|member| member.name.is_some_and(|its| its == name))?;
    match member.attr {
        MemberAttr::Normal { offset } => usize::try_from(offset / 8).ok(),
        MemberAttr::BitField { .. } => None,
    }
}
