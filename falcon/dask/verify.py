"""stub"""
verify = None
