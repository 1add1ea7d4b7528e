-- Held until the session ends; nothing but the canary can be written meanwhile.
lock tables canary write;
