//! What the kernel's side tells a backend in user space, and what that tells it: `bpf/news.bpf.h`, `bpf/sense/told.bpf.h`.

use std::{
    cell::RefCell,
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
};

use libbpf_rs::{MapMut, ProgramInput, RingBuffer, RingBufferBuilder};

use crate::{
    Error, Sensor,
    abi::{as_bytes_mut, raw},
};

/// Size of the ring: thousands of births, for which nobody hurries.
pub(crate) const NEWS_BYTES: u32 = 262_144;

/// Something that a backend in user space must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Somebody waits for this process now, or a read has raised it. Not told again until it is let go of.
    Wanted {
        /// The process.
        tgid: u32,
    },
    /// A thread has the settings of another one, whose process was changed.
    Born {
        /// Its process, which may be new as well.
        tgid: u32,
        /// The process of the thread that it is a copy of.
        parent_tgid: u32,
    },
}

/// News that came and were not yet read.
pub(crate) struct Inbox {
    ring: RingBuffer<'static>,
    read: Rc<RefCell<Vec<News>>>,
}

impl Inbox {
    pub(crate) fn new(map: &MapMut<'_>) -> Result<Self, Error> {
        let read: Rc<RefCell<Vec<News>>> = Rc::default();
        let sink = Rc::clone(&read);
        let failed = |e| Error::libbpf("open the ring of news", e);
        let mut builder = RingBufferBuilder::new();
        let take = move |bytes: &[u8]| {
            sink.borrow_mut().extend(raw::appease_news::from_bytes(bytes).and_then(|news| News::of(&news)));
            0
        };
        builder.add(map, take).map_err(failed)?;
        Ok(Self { ring: builder.build().map_err(failed)?, read })
    }
}

impl News {
    fn of(news: &raw::appease_news) -> Option<Self> {
        let &raw::appease_news { kind, tgid, parent_tgid, .. } = news;
        match kind {
            raw::APPEASE_NEWS_WANTED => Some(Self::Wanted { tgid }),
            raw::APPEASE_NEWS_BORN => Some(Self::Born { tgid, parent_tgid }),
            _ => None,
        }
    }
}

/// Sockets from which a read raises the reader, for policy rbpe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Raises {
    /// Unix sockets.
    pub unix: bool,
    /// TCP and UDP.
    pub network: bool,
}

impl Sensor {
    /// What came since the last call.
    ///
    /// # Errors
    /// When the ring cannot be read.
    pub fn news(&self) -> Result<Vec<News>, Error> {
        let Some(inbox) = &self.news else { return Ok(Vec::new()) };
        inbox.ring.consume().map_err(|e| Error::libbpf("read the ring of news", e))?;
        Ok(inbox.read.take())
    }

    /// Becomes readable when there are news, if any are told at all.
    #[must_use]
    pub fn news_fd(&self) -> Option<BorrowedFd<'_>> {
        self.news.as_ref().map(|_| self.main.maps.news.as_fd())
    }

    /// Says that the threads of a process are going to be changed. Its CPU time so far, `total_ns`, is not charged.
    ///
    /// # Errors
    /// When the kernel does not run it.
    pub fn take_on(&self, tgid: u32, total_ns: u64) -> Result<(), Error> {
        self.charge_as(raw::appease_account { tgid, total_ns, begins: 1, ..Default::default() })
    }

    /// Charges the request that the process serves, for what is new of its CPU time `total_ns`.
    ///
    /// # Errors
    /// When the kernel does not run it.
    pub fn charge(&self, tgid: u32, total_ns: u64) -> Result<(), Error> {
        self.charge_as(raw::appease_account { tgid, total_ns, ..Default::default() })
    }

    fn charge_as(&self, mut account: raw::appease_account) -> Result<(), Error> {
        let input = ProgramInput { context_in: Some(as_bytes_mut(&mut account)), ..Default::default() };
        let ran = self.main.progs.appease_charge.test_run(input);
        ran.map(drop).map_err(|e| Error::libbpf("charge a process", e))
    }

    /// Has the next reason to serve the process told again; to be called before what is done for it is taken back. `changed`
    /// says whether something remains, which its children have, too.
    ///
    /// # Errors
    /// When the kernel does not run it.
    pub fn let_go(&self, tgid: u32, changed: bool) -> Result<(), Error> {
        let mut account = raw::appease_account { tgid, keeps: changed.into(), ..Default::default() };
        let input = ProgramInput { context_in: Some(as_bytes_mut(&mut account)), ..Default::default() };
        let ran = self.main.progs.appease_let_go.test_run(input);
        ran.map(drop).map_err(|e| Error::libbpf("let go of a process", e))
    }

    /// Policy rbpe: which reads raise the reader. While none do, the hooks end at their first test.
    pub fn set_raises(&mut self, raises: Raises) {
        let Some(data) = self.main.maps.data_armed_data.as_deref_mut() else { return };
        let unix = if raises.unix { raw::APPEASE_RAISE_UNIX } else { 0 };
        let network = if raises.network { raw::APPEASE_RAISE_NETWORK } else { 0 };
        data.armed.raises = unix | network;
        data.armed.on = (unix | network != 0).into();
    }
}
