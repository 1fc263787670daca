//! How an application is written: `id`, `kind`, and that kind's keys, side by side.
//!
//! serde's own way to write this (a flattened, tagged enum) reads all values before it knows what they shall be, and so
//! cannot say which key has a wrong one.

use serde::de::Error as _;
use serde_json::{Error, Map, Value};

use crate::App;

/// Keys and values of an `[[app]]`.
pub(crate) type Keys = Map<String, Value>;

impl TryFrom<Keys> for App {
    type Error = String;

    fn try_from(mut keys: Keys) -> Result<Self, String> {
        let id = text(&mut keys, "id")?;
        let told = |reason: String| format!("application \"{id}\": {reason}");
        let kind = text(&mut keys, "kind").map_err(told)?;
        // The way in which serde writes an enum by itself.
        let nested = Value::Object(Map::from_iter([(kind.clone(), Value::Object(keys))]));
        match serde_path_to_error::deserialize(nested) {
            Ok(kind) => Ok(Self { id, kind }),
            Err(error) => {
                let path = error.path().to_string();
                let key = path.strip_prefix(&kind).and_then(|path| path.strip_prefix('.'));
                Err(told(key.map_or_else(|| error.inner().to_string(), |key| format!("{key}: {}", error.inner()))))
            }
        }
    }
}

fn text(keys: &mut Keys, key: &'static str) -> Result<String, String> {
    let value = keys.remove(key).ok_or_else(|| Error::missing_field(key).to_string())?;
    serde_json::from_value(value).map_err(|error| format!("{key}: {error}"))
}

impl From<App> for Keys {
    fn from(App { id, kind }: App) -> Self {
        let mut keys = Keys::from_iter([("id".into(), id.into())]);
        // It cannot fail: all keys of an application are texts and numbers.
        if let Ok(Value::Object(nested)) = serde_json::to_value(kind) {
            for (kind, of_kind) in nested {
                keys.insert("kind".into(), kind.into());
                keys.extend(of_kind.as_object().cloned().unwrap_or_default());
            }
        }
        keys
    }
}
